//! Clients that the embedded cluster does not serve any more.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::interop::disk;
use anyhow::{Result, ensure};

/// A client that is shut out fails, and is told why; one that is let in again goes on with what is there.
pub(crate) fn shut_out(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--auth cephx")?;
    disk::make(&stage.path("disk.raw"), 6)?;
    stage.onego("--conf ceph.conf rbd import disk.raw rbd/disk")?;
    // Without a nonce all clients at the address are meant.
    stage.ceph(&format!("ceph osd blocklist add {ADDRESS}:0/0 3600"))?;
    let listed = stage.ceph("ceph osd blocklist ls")?;
    ensure!(listed.contains(&format!("{ADDRESS}:0/0")), "`ceph osd blocklist ls` says {listed}");
    let said = stage.onego_fails("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    let said = String::from_utf8_lossy(&said.stderr);
    ensure!(said.contains("blocklisted") && said.contains("ceph osd blocklist ls"), "we are told {said}");
    for line in ["rbd export rbd/disk theirs.raw", "rados --pool rbd put thing disk.raw"] {
        stage.ceph_fails(line)?;
    }
    stage.ceph(&format!("ceph osd blocklist rm {ADDRESS}:0/0"))?;
    let listed = stage.ceph("ceph osd blocklist ls")?;
    ensure!(!listed.contains(ADDRESS), "`ceph osd blocklist ls` says {listed}");
    stage.onego("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("ours.raw"))?;
    stage.ceph("rbd rm rbd/disk").map(drop)
}
