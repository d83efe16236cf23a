//! NFS over TCP and over RDMA: the kernel's client and the kernel's server, in guests.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::{Guest, NFS, NFSD, NFSD_PORTS, NFSD_PROGRAMS, Running};
use crate::interop::bench::no_errors;
use crate::interop::steps::says;
use crate::long;
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// What the kernel's client does in a guest, after the lines that say with what.
pub(super) const SCRIPT: &str = include_str!("kernel.sh");

/// What it does while the server starts anew.
const RESTART: &str = include_str!("kernel_restart.sh");

/// The programs that the script runs. `rdma` makes the device that the kernel's client uses RDMA with.
const PROGRAMS: &[&str] = &["fio", "rdma"];

/// How the kernel's server is mounted.
const KERNEL_MOUNTS: &[&str] =
    &["proto=tcp,port=2049,mountport=20048", "proto=rdma,port=20049,mountport=20048"];

/// How our server is mounted: with transfers of the most bytes, and with small ones, many at a time.
const OUR_MOUNTS: &[&str] = &[
    "proto=tcp,port=2049,mountport=2049",
    "proto=tcp,port=2049,mountport=2049,rsize=4096,wsize=4096,nconnect=2",
];

/// The same over RDMA: with messages of 4 KiB, and of 1 KiB, from another server.
const OUR_RDMA_MOUNTS: &[&str] = &[
    "proto=rdma,port=20049,mountport=2049",
    "proto=rdma,port=20050,mountport=2050",
    "proto=rdma,port=20049,mountport=2049,rsize=32768,wsize=32768,nconnect=2",
];

/// How our client uses the kernel's server: options of its URL.
const KERNEL_URLS: &[&str] = &[
    "nfsport=2049&mountport=20048",
    "rdma&mountport=20048",
    "rdma&mountport=20048&inline=1024",
    "rdma&mountport=20048&inline=65536&nconnect=3",
];

/// Bytes of files: nothing, less than a message, more, and more than a call carries.
const SIZES: &[usize] = &[0, 1, 900, 4096, 40_003, 1 << 20, 5_000_001];

/// What both ends are tested with works with itself: the kernel's client on the kernel's server.
pub(crate) fn kernel_on_kernel(stage: &Stage) -> Result<()> {
    let _server = kernel_server(stage)?;
    kernel_mounts(stage, "/export", KERNEL_MOUNTS)
}

/// Starts the kernel's server in a guest.
fn kernel_server(stage: &Stage) -> Result<Running> {
    let guest = Guest::prepare(stage, &NFS)?;
    let script = format!("{NFSD}\necho ready\nsleep 1000\n");
    let mut server = guest.start(stage, "server", &script, NFSD_PROGRAMS, NFSD_PORTS)?;
    server.wait_for("ready")?;
    Ok(server)
}

/// Our client on the kernel's server.
pub(crate) fn ours_on_kernel(stage: &Stage) -> Result<()> {
    let _server = kernel_server(stage)?;
    for options in KERNEL_URLS {
        our_client(stage, options).with_context(|| format!("with {options}"))?;
    }
    let list = |option| format!("nfs ls nfs://{ADDRESS}/secure?{}{option}", KERNEL_URLS[0]);
    stage.onego(&list("&resvport"))?;
    let refused = stage.onego_fails(&list("&noresvport"))?;
    says(&String::from_utf8_lossy(&refused.stderr), "port below 1024")
}

/// Files go to the export and come back as they were; names are made, changed and removed; and a verified load.
fn our_client(stage: &Stage, options: &str) -> Result<()> {
    let url = |path: &str| format!("nfs://{ADDRESS}/secure/{path}?{options}");
    stage.onego(&format!("nfs mkdir {}", url("d")))?;
    for size in SIZES {
        // Neither zeros nor a short pattern.
        let bytes: Vec<u8> = (0..*size).map(|at| (at * at / 7 + at / 251) as u8).collect();
        fs::write(stage.path("there"), &bytes)?;
        stage.onego(&format!("nfs put there {}", url(&format!("d/{size}"))))?;
        stage.onego(&format!("nfs cp {} back", url(&format!("d/{size}"))))?;
        ensure!(fs::read(stage.path("back"))? == bytes, "{size} bytes came back as others");
        fs::remove_file(stage.path("back"))?;
    }
    stage.onego(&format!("nfs mv {} {}", url("d/900"), url("d/moved")))?;
    stage.onego(&format!("nfs rm {}", url("d/1")))?;
    let said = stage.onego(&format!("nfs ls {}", url("d")))?;
    let mut names: Vec<&str> = said.lines().collect();
    names.sort_unstable();
    ensure!(names == ["0", "1048576", "40003", "4096", "5000001", "moved"], "other names: {names:?}");
    stage.onego_fails(&format!("nfs cat {}", url("d/900")))?;
    for name in names {
        stage.onego(&format!("nfs rm {}", url(&format!("d/{name}"))))?;
    }
    stage.onego(&format!("nfs rm --recursive {}", url("d")))?;
    stage.onego(&format!(
        "bench nfs --server {} --rw randrw --block-size 4k,64k --io-depth 16 --size 8M --seconds 2 --verify \
         --json rows.json",
        url("")
    ))?;
    no_errors(&stage.path("rows.json"))
}

/// The kernel's client on our server.
pub(crate) fn kernel_on_ours(stage: &Stage) -> Result<()> {
    let _server = Embedded::start_nfs(stage, "--mem --insecure")?;
    kernel_mounts(stage, "/export", OUR_MOUNTS)
}

/// The kernel's client on our server, over RDMA.
pub(crate) fn kernel_on_ours_by_rdma(stage: &Stage) -> Result<()> {
    // The client would have messages of 4 KiB, and its memory invalidated.
    let _server = Embedded::start_nfs(stage, "--mem --rdma --insecure")?;
    let _small = Embedded::start_nfs(
        stage,
        "--mem --insecure --tcp 2050 --rdma 20050 --inline 1K --no-remote-invalidation",
    )?;
    kernel_mounts(stage, "/export", OUR_RDMA_MOUNTS)
}

/// The kernel's client on a directory that our server exports, over TCP and over RDMA, also while the server starts anew.
pub(crate) fn kernel_on_directory(stage: &Stage) -> Result<()> {
    let options = [OUR_MOUNTS[0], OUR_RDMA_MOUNTS[0]];
    fs::create_dir(stage.path("export"))?;
    let server = directory_server(stage)?;
    kernel_mounts(stage, "/export", &options)?;
    let left = fs::read_dir(stage.path("export"))?.count();
    ensure!(left == 0, "{left} files are left in the directory of which all were removed");
    kernel_goes_on(stage, server, &options)
}

/// A server of a directory whose handles outlive it.
fn directory_server(stage: &Stage) -> Result<Embedded> {
    Embedded::start_nfs(stage, "export --squash none --rdma --insecure --handle-key handles.key")
}

/// The kernel's client goes on after a restart of the server, during which others have moved and removed what it has open.
fn kernel_goes_on(stage: &Stage, mut server: Embedded, options: &[&str]) -> Result<()> {
    let export = |name: &str| stage.path("export").join(name);
    fs::create_dir(export("other"))?;
    stage.host("mount -t tmpfs other export/other")?;
    stage.host("touch export/other/inside")?;
    let guest = Guest::prepare(stage, &NFS)?;
    let script = mounting("/export", options) + RESTART;
    let mut guest = guest.start(stage, "client", &script, PROGRAMS, &[])?;
    for number in 0..options.len() {
        guest.wait_for(&format!("restart {number}"))?;
        // It ends at once, as in a crash.
        drop(server);
        fs::create_dir(export("elsewhere"))?;
        fs::rename(export("deep/er/kept"), export("elsewhere/moved"))?;
        fs::remove_file(export("deep/er/gone"))?;
        server = directory_server(stage)?;
        fs::write(export(&format!("restarted-{number}")), "")?;
    }
    let said = guest.end()?;
    let goes_on = |options: &&str| said.lines().any(|line| line == format!("goes on: {options}"));
    ensure!(options.iter().all(goes_on), "the guest does not say that it goes on:\n{said}");
    Ok(())
}

/// The kernel's client, in a guest, mounts what a server on the stage exports, with one set of options after the other.
fn kernel_mounts(stage: &Stage, export: &str, options: &[&str]) -> Result<()> {
    let guest = Guest::prepare(stage, &NFS)?;
    let said = guest.run(stage, &(mounting(export, options) + SCRIPT), PROGRAMS)?;
    for options in options {
        let works = said.lines().any(|line| line.starts_with(&format!("works: {options} ")));
        ensure!(works, "the guest does not say that {options} works:\n{said}");
    }
    Ok(())
}

/// The start of a script: what is mounted, and with which options.
fn mounting(export: &str, options: &[&str]) -> String {
    let (large, names) = if long::is_wanted() { (5000, 2400) } else { (2100, 600) };
    let mut script = format!(
        "SERVER={ADDRESS}\nEXPORT={export}\nLARGE={large}\nNAMES={names}\ncat > /tmp/options <<END\n"
    );
    options.iter().for_each(|options| script += &format!("{options}\n"));
    script + "END\n/host/rdma link add siw0 type siw netdev eth0 || exit\n"
}
