//! The kernel's client of NBD on our server.

use crate::cluster::{Embedded, Stage};
use crate::guest::{Guest, NBD};
use anyhow::{Result, ensure};

/// What is done in the guest.
const SCRIPT: &str = concat!(include_str!("../../guest/files.sh"), include_str!("kernel_nbd.sh"));

/// The programs that the script runs.
const PROGRAMS: &[&str] = &["fio", "mke2fs", "nbd-client"];

/// An image of our embedded cluster as a block device of the guest, by several connections.
pub(crate) fn client(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    stage.onego("-c ceph.conf rbd create rbd/disk --size 128M")?;
    let server = Embedded::start_nbd(stage, "-c ceph.conf", "rbd:disk")?;
    let guest = Guest::prepare(stage, &NBD)?;
    let said = guest.run(stage, SCRIPT, PROGRAMS)?;
    ensure!(said.lines().any(|line| line == "works: all"), "the guest does not say that all works:\n{said}");
    server.stop()
}
