//! Our client of NBD on nbdkit and qemu-nbd, and copies between them, files and our own server.

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::{json, says};
use anyhow::{Context as _, Result, ensure};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Servers that others have written, each as little or as much as it can.
const PEERS: [(&str, &str); 4] = [
    // Structured replies, several connections.
    ("nbdkit", "nbdkit -f -U peer.sock memory SIZE"),
    // Simple replies, one connection, no zeroes.
    (
        "nbdkit-old",
        "nbdkit -f -U peer.sock --no-sr --filter=multi-conn --filter=nozero memory SIZE multi-conn-mode=disable \
         zeromode=none",
    ),
    // Blocks of 4096 bytes, and payloads of 64 KiB at most.
    (
        "nbdkit-blocks",
        "nbdkit -f -U peer.sock --filter=blocksize-policy memory 256M blocksize-minimum=4096 \
         blocksize-preferred=4096 blocksize-maximum=64K blocksize-error-policy=error",
    ),
    ("qemu-nbd", "qemu-nbd -t -f raw -x disk -k SOCKET --discard=unmap --detect-zeroes=off qemu.raw"),
];

/// Copies to and from other people's servers of NBD, exports of theirs by ours, and servers that die meanwhile.
pub(crate) fn devices(stage: &Stage) -> Result<()> {
    disk::make(&stage.path("disk.raw"), 5)?;
    // QEMU knows no part of a sector.
    File::create(stage.path("qemu.raw"))?.set_len(disk::SIZE)?;
    for (name, line) in PEERS {
        let server = start(stage, name, &line.replace("SIZE", &disk::SIZE.to_string()))?;
        let export = if name == "qemu-nbd" { "disk" } else { "" };
        copied(stage, &format!("nbd+unix:///{export}?socket=peer.sock")).with_context(|| name.to_owned())?;
        server.stop()?;
    }
    ensure!(disk::is_sparse(&stage.path("qemu.raw"))?, "the copy on qemu-nbd has no holes");
    holes(stage)?;
    refused(stage)?;
    source_dies(stage)?;
    destination_dies(stage)
}

/// Starts a server of the host on the socket, and waits until that takes connections.
fn start(stage: &Stage, name: &str, line: &str) -> Result<Daemon> {
    let socket = stage.path("peer.sock");
    // QEMU wants the whole path.
    let line = line.replace("SOCKET", &socket.display().to_string());
    let (program, arguments) = line.split_once(' ').context("a program with arguments")?;
    if socket.exists() {
        fs::remove_file(&socket)?;
    }
    let command = stage.program(program.as_ref(), arguments);
    let mut server = Daemon::spawn(name, command, &stage.path(&format!("{name}.out")))?;
    server.wait_until("its socket", PATIENCE, || UnixStream::connect(&socket).is_ok())?;
    Ok(server)
}

/// Runs a line of a program of the host, with an end.
fn run(stage: &Stage, line: &str) -> Result<String> {
    stage.host(&format!("timeout 60 {line}"))
}

/// There and back, also by way of our own server, for other people's clients.
fn copied(stage: &Stage, url: &str) -> Result<()> {
    stage.onego(&format!("cp disk.raw {url}"))?;
    there(stage, url)?;
    let server = Embedded::start_nbd(stage, "", &format!("{url} --socket ours.sock"))?;
    let ours = "nbd+unix:///?socket=ours.sock";
    there(stage, ours)?;
    // Its own clients change it, and say what they find.
    let work = "write -P 7 1M 64k\nwrite -z 3M 1M\nwrite -z -u 5M 1M\ndiscard 12M 4M\nread -P 7 1M 64k\n\
                read -P 0 3M 1M\nread -P 0 5M 1M\nflush\n";
    fs::write(stage.path("work"), work)?;
    fs::write(stage.path("work.sh"), format!("qemu-io -f raw '{ours}' < work"))?;
    let said = run(stage, "/bin/sh work.sh")?;
    ensure!(!said.contains("failed") && said.contains("read 65536/65536"), "qemu-io: {said}");
    run(stage, &format!("nbdcopy --destination-is-zero {ours} null:"))?;
    server.stop()?;
    stage.onego(&format!("cp disk.raw {url}"))?;
    there(stage, url)
}

/// The bytes of the disk are there.
fn there(stage: &Stage, url: &str) -> Result<()> {
    stage.onego(&format!("cp {url} back.raw --replace"))?;
    ensure!(disk::is_sparse(&stage.path("back.raw"))?, "the copy has no holes");
    // What is behind the disk, where the device is larger, is cut off.
    File::options().write(true).open(stage.path("back.raw"))?.set_len(disk::SIZE)?;
    disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))
}

/// Holes that a server tells of are not read.
fn holes(stage: &Stage) -> Result<()> {
    let server = start(stage, "sparse-random", "nbdkit -f -U peer.sock sparse-random 4G seed=3 percent=1")?;
    let url = "nbd+unix:///?socket=peer.sock";
    let said = json(&stage.onego(&format!("cp {url} sparse.raw --format json"))?)?;
    let (size, data) = (said["size"].as_u64(), said["data"].as_u64());
    ensure!(
        size == Some(4 << 30) && data.is_some_and(|data| data < 400 << 20),
        "too much was copied: {said}"
    );
    says(&run(stage, &format!("qemu-img compare -f raw -F raw sparse.raw {url}"))?, "identical")?;
    fs::remove_file(stage.path("sparse.raw"))?;
    server.stop()
}

/// What goes wrong on a server is said with the side and the place, and half a copy has no name.
fn refused(stage: &Stage) -> Result<()> {
    let line = "nbdkit -f -U peer.sock --filter=error file disk.raw error-pread=EIO error-pread-rate=100%";
    let server = start(stage, "errors", line)?;
    let url = "nbd+unix:///?socket=peer.sock";
    let failed = stage.onego_fails(&format!("cp {url} failed.raw"))?;
    says(&String::from_utf8_lossy(&failed.stderr), "the source, ")?;
    ensure!(!stage.path("failed.raw").exists(), "half a copy has the name of a whole one");
    server.stop()?;
    let server = start(stage, "read-only", "nbdkit -f -U peer.sock -r memory 1G")?;
    let failed = stage.onego_fails(&format!("cp disk.raw {url}"))?;
    says(&String::from_utf8_lossy(&failed.stderr), "the destination is read-only")?;
    server.stop()
}

/// Runs a copy, kills the server in the middle of it, and starts it again.
fn with_a_crash(stage: &Stage, copy: &str, name: &str, server: &str) -> Result<Output> {
    let running = start(stage, name, server)?;
    let mut command = stage.onego_command(copy);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    sleep(Duration::from_millis(700));
    drop(running);
    sleep(Duration::from_millis(300));
    let running = start(stage, name, server)?;
    let output = child.wait_with_output()?;
    running.stop()?;
    Ok(output)
}

/// A source that dies and comes again: the copy goes on.
fn source_dies(stage: &Stage) -> Result<()> {
    let server = "nbdkit -f -U peer.sock --filter=delay file disk.raw rdelay=300ms";
    let copy = "cp nbd+unix:///?socket=peer.sock slow.raw --depth 4 --format json";
    let output = with_a_crash(stage, copy, "slow-reads", server)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = json(&String::from_utf8_lossy(&output.stdout))?;
    ensure!(said["seconds"].as_f64() > Some(1.0), "the copy was over before the server died: {said}");
    disk::compare(&stage.path("disk.raw"), &stage.path("slow.raw"))
}

/// A destination that dies may have lost what it had not flushed: the copy is not said to be whole.
fn destination_dies(stage: &Stage) -> Result<()> {
    File::create(stage.path("target.raw"))?.set_len(disk::SIZE)?;
    let server = "nbdkit -f -U peer.sock --filter=delay file target.raw wdelay=300ms";
    let copy = "cp disk.raw nbd+unix:///?socket=peer.sock --destination-is-zero --depth 4";
    let output = with_a_crash(stage, copy, "slow-writes", server)?;
    ensure!(!output.status.success(), "the copy is said to be whole");
    says(&String::from_utf8_lossy(&output.stderr), "may be lost")
}
