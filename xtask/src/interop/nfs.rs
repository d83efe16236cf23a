//! NFS over TCP and over RDMA: the kernel's client and the kernel's server, in guests.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::{Guest, NFS, NFSD, NFSD_PORTS, NFSD_PROGRAMS};
use anyhow::{Result, ensure};

/// What the kernel's client does in a guest, after the lines that say with what.
const SCRIPT: &str = include_str!("nfs.sh");

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

/// What both ends are tested with works with itself: the kernel's client on the kernel's server.
pub(crate) fn kernel_on_kernel(stage: &Stage) -> Result<()> {
    let guest = Guest::prepare(stage, &NFS)?;
    let script = format!("{NFSD}\necho ready\nsleep 1000\n");
    let mut server = guest.start(stage, "server", &script, NFSD_PROGRAMS, NFSD_PORTS)?;
    server.wait_for("ready")?;
    kernel_mounts(stage, "/export", KERNEL_MOUNTS)
}

/// The kernel's client on our server.
pub(crate) fn kernel_on_ours(stage: &Stage) -> Result<()> {
    let _server = Embedded::start_nfs(stage, "--mem")?;
    kernel_mounts(stage, "/export", OUR_MOUNTS)
}

/// The kernel's client on our server, over RDMA.
pub(crate) fn kernel_on_ours_by_rdma(stage: &Stage) -> Result<()> {
    // The client would have messages of 4 KiB, and its memory invalidated.
    let _server = Embedded::start_nfs(stage, "--mem --rdma")?;
    let _small =
        Embedded::start_nfs(stage, "--mem --tcp 2050 --rdma 20050 --inline 1K --no-remote-invalidation")?;
    kernel_mounts(stage, "/export", OUR_RDMA_MOUNTS)
}

/// The kernel's client, in a guest, mounts what a server on the stage exports, with one set of options after the other.
fn kernel_mounts(stage: &Stage, export: &str, options: &[&str]) -> Result<()> {
    let guest = Guest::prepare(stage, &NFS)?;
    let mut script = format!("SERVER={ADDRESS}\nEXPORT={export}\ncat > /tmp/options <<END\n");
    options.iter().for_each(|options| script += &format!("{options}\n"));
    script += "END\n/host/rdma link add siw0 type siw netdev eth0 || exit\n";
    let said = guest.run(stage, &(script + SCRIPT), PROGRAMS)?;
    for options in options {
        let works = said.lines().any(|line| line.starts_with(&format!("works: {options} ")));
        ensure!(works, "the guest does not say that {options} works:\n{said}");
    }
    Ok(())
}
