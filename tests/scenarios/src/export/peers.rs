//! Our NBD client on nbdkit and qemu-nbd, and copies between them, files and our own server.

use super::qemu_io;
use crate::steps::{json, says, says_error};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Daemon, Sandbox, Server, disk};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Time a server gets to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// URI of the server under test.
const URI: &str = "nbd+unix:///?socket=peer.sock";

/// Features of nbdkit in which servers differ.
const FEATURES: [(&str, &str); 3] = [
    ("structured replies, several connections", "memory SIZE"),
    (
        "simple replies, one connection, no zeroes",
        "--no-sr --filter=multi-conn --filter=nozero memory SIZE multi-conn-mode=disable zeromode=none",
    ),
    (
        "blocks of 4096 bytes, payloads of at most 64 KiB",
        "--filter=blocksize-policy memory 256M blocksize-minimum=4096 blocksize-preferred=4096 \
         blocksize-maximum=64K blocksize-error-policy=error",
    ),
];

/// Copies to and from other NBD servers, serves their exports, and kills them meanwhile.
pub(super) fn all(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 5)?;
    for (features, arguments) in FEATURES {
        let server = nbdkit(sandbox, &arguments.replace("SIZE", &disk::SIZE.to_string()))?;
        copied(sandbox, URI).context(features)?;
        server.stop()?;
    }
    // QEMU requires whole sectors and an absolute path.
    File::create(sandbox.path("qemu.raw"))?.set_len(disk::SIZE)?;
    let (socket, more) = (sandbox.path("peer.sock"), "--discard=unmap --detect-zeroes=off qemu.raw");
    let server = start(sandbox, &format!("qemu-nbd -t -f raw -x disk -k {} {more}", socket.display()))?;
    copied(sandbox, "nbd+unix:///disk?socket=peer.sock").context("qemu-nbd")?;
    server.stop()?;
    ensure!(disk::is_sparse(&sandbox.path("qemu.raw"))?, "the copy on qemu-nbd has no holes");
    holes(sandbox)?;
    refused(sandbox)?;
    source_dies(sandbox)?;
    destination_dies(sandbox)
}

/// Starts nbdkit on the socket.
fn nbdkit(sandbox: &Sandbox, arguments: &str) -> Result<Daemon> {
    start(sandbox, &format!("nbdkit -f -U peer.sock {arguments}"))
}

/// Starts a server on the socket and waits until it accepts connections.
fn start(sandbox: &Sandbox, line: &str) -> Result<Daemon> {
    let socket = sandbox.path("peer.sock");
    if socket.exists() {
        fs::remove_file(&socket)?;
    }
    let mut server = Daemon::spawn("NBD server", sandbox.tool_daemon(line), &sandbox.path("peer.out"))?;
    server.wait_until("open socket", PATIENCE, || UnixStream::connect(&socket).is_ok())?;
    Ok(server)
}

/// Copies there and back, also through our own server, which other clients use meanwhile.
fn copied(sandbox: &Sandbox, url: &str) -> Result<()> {
    sandbox.onego(&format!("cp disk.raw {url}"))?;
    comes_back(sandbox, url)?;
    let server = Server::nbd(sandbox, &format!("{url} --socket ours.sock"))?;
    let ours = "nbd+unix:///?socket=ours.sock";
    comes_back(sandbox, ours)?;
    qemu_io(sandbox, &format!("-f raw '{ours}'"))?;
    sandbox.tool(&format!("nbdcopy --destination-is-zero {ours} null:"))?;
    server.stop()?;
    sandbox.onego(&format!("cp disk.raw {url}"))?;
    comes_back(sandbox, url)
}

/// Copies a device to a file, which must be the disk.
fn comes_back(sandbox: &Sandbox, url: &str) -> Result<()> {
    sandbox.onego(&format!("cp {url} back.raw --replace"))?;
    ensure!(disk::is_sparse(&sandbox.path("back.raw"))?, "the copy has no holes");
    // The device may be larger than the disk.
    File::options().write(true).open(sandbox.path("back.raw"))?.set_len(disk::SIZE)?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("back.raw"))
}

/// Holes that a server reports are not read.
fn holes(sandbox: &Sandbox) -> Result<()> {
    let server = nbdkit(sandbox, "sparse-random 4G seed=3 percent=1")?;
    let said = json(&sandbox.onego(&format!("cp {URI} sparse.raw --format json"))?)?;
    let (size, data) = (said["size"].as_u64(), said["data"].as_u64());
    ensure!(
        size == Some(4 << 30) && data.is_some_and(|data| data < 400 << 20),
        "too much was copied: {said}"
    );
    says(&sandbox.tool(&format!("qemu-img compare -f raw -F raw sparse.raw {URI}"))?, "identical")?;
    fs::remove_file(sandbox.path("sparse.raw"))?;
    server.stop()
}

/// Errors name the side and the cause, and half a copy does not get the name of a whole one.
fn refused(sandbox: &Sandbox) -> Result<()> {
    let server = nbdkit(sandbox, "--filter=error file disk.raw error-pread=EIO error-pread-rate=100%")?;
    says_error(&sandbox.onego_fails(&format!("cp {URI} failed.raw"))?, "the source, ")?;
    ensure!(!sandbox.path("failed.raw").exists(), "half a copy has the name of a whole one");
    server.stop()?;
    let server = nbdkit(sandbox, "-r memory 1G")?;
    says_error(&sandbox.onego_fails(&format!("cp disk.raw {URI}"))?, "the destination is read-only")?;
    server.stop()
}

/// Runs a copy; kills the server in the middle of it and starts another.
fn with_a_crash(sandbox: &Sandbox, copy: &str, server: &str) -> Result<Output> {
    let running = nbdkit(sandbox, server)?;
    let mut command = sandbox.onego_command(copy);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    sleep(Duration::from_millis(700));
    drop(running);
    sleep(Duration::from_millis(300));
    let running = nbdkit(sandbox, server)?;
    let output = child.wait_with_output()?;
    running.stop()?;
    Ok(output)
}

/// A copy continues when its source has returned.
fn source_dies(sandbox: &Sandbox) -> Result<()> {
    let server = "--filter=delay file disk.raw rdelay=300ms";
    let copy = format!("cp {URI} slow.raw --depth 4 --format json");
    let output = with_a_crash(sandbox, &copy, server)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = json(&String::from_utf8_lossy(&output.stdout))?;
    ensure!(said["seconds"].as_f64() > Some(1.0), "the copy ended before the server: {said}");
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("slow.raw"))
}

/// A destination that dies may have lost what it had not flushed, so the copy fails.
fn destination_dies(sandbox: &Sandbox) -> Result<()> {
    File::create(sandbox.path("target.raw"))?.set_len(disk::SIZE)?;
    let server = "--filter=delay file target.raw wdelay=300ms";
    let copy = format!("cp disk.raw {URI} --destination-is-zero --depth 4");
    let output = with_a_crash(sandbox, &copy, server)?;
    ensure!(!output.status.success(), "the copy succeeded although writes may be lost");
    says_error(&output, "may be lost")
}
