//! The kernel's NFS client and server in guests, over TCP and over RDMA.

use crate::bench::no_errors;
use crate::guests::script;
use crate::steps::says_error;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Boot, Guest, NFS, NFSD, NFSD_PORTS, NFSD_PROGRAMS, Sandbox, Server, workspace};
use std::fs;

/// Options of mounts of the kernel's server.
const KERNEL_MOUNTS: &[&str] =
    &["proto=tcp,port=2049,mountport=20048", "proto=rdma,port=20049,mountport=20048"];

/// Mounts of our server with default sizes.
const OUR_MOUNTS: &[&str] = &["proto=tcp,port=2049,mountport=2049", "proto=rdma,port=20049,mountport=2049"];

/// Mounts of our server with small transfers, many at a time, and of another server with messages of 1 KiB.
const OTHER_MOUNTS: &[&str] = &[
    "proto=tcp,port=2049,mountport=2049,rsize=4096,wsize=4096,nconnect=2",
    "proto=rdma,port=20050,mountport=2050",
    "proto=rdma,port=20049,mountport=2049,rsize=32768,wsize=32768,nconnect=2",
];

/// Options of our client's URLs for the kernel's server.
const KERNEL_URLS: &[&str] = &[
    "nfsport=2049&mountport=20048",
    "rdma&mountport=20048",
    "rdma&mountport=20048&inline=1024",
    "rdma&mountport=20048&inline=65536&nconnect=3",
];

/// Bytes of files: none, less than a message, more, and more than a call carries.
const SIZES: &[usize] = &[0, 1, 900, 4096, 40_003, 1 << 20, 5_000_001];

/// Returns the check of a mount with these options.
pub(super) fn files(options: &str) -> String {
    let names = if workspace::is_long() { 2400 } else { 600 };
    mounting(&format!("NAMES={names}\n: \"${{OPTIONS:={options}}}\""), include_str!("files.sh"))
}

/// Returns a check that may call `mount_export`.
pub(super) fn mounting(variables: &str, check: &str) -> String {
    script(variables, &[include_str!("mount.sh"), check].concat())
}

/// Returns a guest with the kernel's client and a check for each mount.
fn client<'a>(sandbox: &'a Sandbox, mounts: &[&str]) -> Result<Boot<'a>> {
    Ok(with_files(Boot::new(sandbox, &NFS)?, mounts))
}

fn with_files<'a>(boot: Boot<'a>, mounts: &[&str]) -> Boot<'a> {
    mounts.iter().fold(boot.programs(&["fio", "rdma"]), |boot, options| boot.check(options, &files(options)))
}

/// Checks our server in memory.
pub(super) fn on_memory(sandbox: &Sandbox) -> Result<()> {
    // Where the client's ports are seen, it mounts without `--insecure`: over TCP they are privileged, over RDMA never.
    let (boot, is_seen) = Boot::new(sandbox, &NFS)?.tap()?;
    let insecure = if is_seen { "" } else { "--insecure" };
    // The client uses messages of 4 KiB, and its memory is invalidated.
    let _server = Server::nfs(sandbox, &format!("--mem --rdma {insecure}"))?;
    let other = format!("--mem {insecure} --tcp 2050 --rdma 20050 --inline 1K --no-remote-invalidation");
    let _other = Server::nfs(sandbox, &other)?;
    let mounts = [OUR_MOUNTS, OTHER_MOUNTS].concat();
    let mut guest = with_files(boot, &mounts).start("guest")?;
    mounts.iter().try_for_each(|options| guest.check(options).map(drop))
}

/// Checks a directory that our server exports, also while the server restarts.
pub(super) fn on_directory(sandbox: &Sandbox) -> Result<()> {
    let export = |name: &str| sandbox.path("export").join(name);
    // Handles outlive the server.
    let serve = || Server::nfs(sandbox, "export --squash none --rdma --insecure --handle-key handles.key");
    fs::create_dir(export(""))?;
    let mut server = serve()?;
    let mut boot = client(sandbox, OUR_MOUNTS)?;
    for options in OUR_MOUNTS {
        let restart = mounting(&format!("OPTIONS={options}"), include_str!("restart.sh"));
        boot = boot.check(&format!("restart,{options}"), &restart);
    }
    let mut guest = boot.start("guest")?;
    OUR_MOUNTS.iter().try_for_each(|options| guest.check(options).map(drop))?;
    let left = fs::read_dir(export(""))?.count();
    ensure!(left == 0, "{left} files are left in the directory of which all were removed");

    fs::create_dir(export("other"))?;
    sandbox.host("mount -t tmpfs other export/other")?;
    sandbox.host("touch export/other/inside")?;
    for options in OUR_MOUNTS {
        guest.begin(&format!("restart,{options}"))?;
        guest.wait_for("restart")?;
        // SIGKILL, as in a crash.
        drop(server);
        fs::create_dir(export("elsewhere"))?;
        fs::rename(export("deep/er/kept"), export("elsewhere/moved"))?;
        fs::remove_file(export("deep/er/gone"))?;
        server = serve()?;
        fs::write(export("restarted"), "")?;
        guest.end().with_context(|| format!("restart under {options}"))?;
    }
    Ok(())
}

/// Starts a guest with the kernel's server.
fn kernel_server(sandbox: &Sandbox) -> Result<Guest> {
    let started = format!("{NFSD}\ngrep -q 'rdma 20049' /proc/fs/nfsd/portlist");
    let boot = Boot::new(sandbox, &NFS)?.programs(NFSD_PROGRAMS).ports(NFSD_PORTS).check("serve", &started);
    let mut guest = boot.start("server")?;
    guest.check("serve")?;
    Ok(guest)
}

/// Checks that the tests pass without any of our programs.
pub(super) fn on_kernel(sandbox: &Sandbox) -> Result<()> {
    let _server = kernel_server(sandbox)?;
    let mut guest = client(sandbox, KERNEL_MOUNTS)?.start("guest")?;
    KERNEL_MOUNTS.iter().try_for_each(|options| guest.check(options).map(drop))
}

/// Checks our client on the kernel's server.
pub(super) fn our_client(sandbox: &Sandbox) -> Result<()> {
    let _server = kernel_server(sandbox)?;
    for options in KERNEL_URLS {
        copies(sandbox, options).with_context(|| format!("with {options}"))?;
    }
    let list = |option| format!("nfs ls nfs://{ADDRESS}/secure?{}{option}", KERNEL_URLS[0]);
    sandbox.onego(&list("&resvport"))?;
    says_error(&sandbox.onego_fails(&list("&noresvport"))?, "port below 1024")
}

/// Copies files there and back, makes, changes and removes names, and runs a verified load.
fn copies(sandbox: &Sandbox, options: &str) -> Result<()> {
    let nfs = |line: &str| sandbox.onego(&format!("nfs {line}?{options}"));
    let root = format!("nfs://{ADDRESS}/secure");
    nfs(&format!("mkdir {root}/d"))?;
    for size in SIZES {
        // Neither zeros nor a short pattern.
        let bytes: Vec<u8> = (0..*size).map(|at| (at * at / 7 + at / 251) as u8).collect();
        sandbox.write("there", &bytes)?;
        nfs(&format!("put there {root}/d/{size}"))?;
        sandbox.onego(&format!("nfs cp {root}/d/{size}?{options} back"))?;
        ensure!(fs::read(sandbox.path("back"))? == bytes, "a file of {size} bytes came back changed");
        fs::remove_file(sandbox.path("back"))?;
    }
    sandbox.onego(&format!("nfs mv {root}/d/900?{options} d/moved"))?;
    nfs(&format!("rm {root}/d/1"))?;
    let said = nfs(&format!("ls {root}/d"))?;
    let mut names: Vec<&str> = said.lines().collect();
    names.sort_unstable();
    ensure!(names == ["0", "1048576", "40003", "4096", "5000001", "moved"], "other names: {names:?}");
    sandbox.onego_fails(&format!("nfs cat {root}/d/900?{options}"))?;
    for name in names {
        nfs(&format!("rm {root}/d/{name}"))?;
    }
    nfs(&format!("rm --recursive {root}/d"))?;
    sandbox.onego(&format!(
        "bench nfs --server {root}/?{options} --rw randrw --block-size 4k,64k --io-depth 16 --size 8M --seconds 2 \
         --verify --json rows.json"
    ))?;
    no_errors(&sandbox.path("rows.json"))
}
