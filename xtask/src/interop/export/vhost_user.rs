//! A guest whose disk is an image that we export by vhost-user.

use crate::cluster::{Embedded, Stage};
use crate::guest::{Guest, ServedDisk, VIRTIO_BLK};
use anyhow::{Result, ensure};
use std::thread::sleep;
use std::time::Duration;

/// What is done in the guest.
const SCRIPT: &str = concat!(include_str!("../../guest/files.sh"), include_str!("vhost_user.sh"));

/// The programs of the host that the script runs.
const PROGRAMS: &[&str] = &["fio", "mke2fs"];

/// Where the server listens.
const DISK: ServedDisk = ServedDisk::VhostUser { socket: "disk.sock" };

/// Processors of the guest, each with a queue of the disk.
const QUEUES: u16 = 2;

/// Servers that are killed while the guest writes and verifies.
const KILLED: usize = 3;

/// How long each serves before.
const LIFE: Duration = Duration::from_secs(3);

/// A file system and fio's verified load on an image of our embedded cluster, whose server is killed under the load and
/// started again, and whose size changes meanwhile.
pub(crate) fn guest(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    stage.onego("-c ceph.conf rbd create rbd/disk --size 256M")?;
    let serve = || Embedded::start_vhost_user(stage, "-c ceph.conf", "rbd:disk");
    let mut server = serve()?;
    let guest = Guest::prepare(stage, &VIRTIO_BLK)?;
    let mut guest = guest.start_with_disk(stage, SCRIPT, PROGRAMS, DISK, QUEUES)?;
    guest.wait_for("waits: to grow")?;
    stage.onego("-c ceph.conf rbd resize rbd/disk --size 300M")?;
    guest.wait_for("begins: load")?;
    for _ in 0..KILLED {
        sleep(LIFE);
        ensure!(!guest.has_said("ends: load"), "the load was over before all servers were killed");
        // Dropped, it is killed, without a word.
        drop(server);
        server = serve()?;
    }
    let said = guest.end()?;
    ensure!(said.lines().any(|line| line == "works: all"), "the guest does not say that all works:\n{said}");
    server.stop()?;
    ensure!(!stage.path("disk.sock").exists(), "the socket is left");
    Ok(())
}
