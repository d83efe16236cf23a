//! Guests that run from a disk that we serve.

use crate::cluster::{Embedded, Stage};
use crate::guest::{Guest, ServedDisk, VIRTIO_BLK};
use anyhow::{Result, ensure};

/// What is done in the guest.
const SCRIPT: &str = concat!(include_str!("../../guest/files.sh"), include_str!("root.sh"));

/// The programs of the host that the script runs.
const PROGRAMS: &[&str] = &["fio"];

/// Bytes of the root file system.
const SIZE: u64 = 256 << 20;

/// Processors of the guest, each with a queue of the disk.
const QUEUES: u16 = 2;

/// QEMU is the client, and has a disk of its own for the guest.
pub(crate) fn by_nbd(stage: &Stage) -> Result<()> {
    let disk = ServedDisk::Nbd { socket: "nbd.sock", export: "rbd/root" };
    runs_from(stage, disk, || Embedded::start_nbd(stage, "-c ceph.conf", "rbd:root --socket nbd.sock"))
}

/// Our server has the guest's memory.
pub(crate) fn by_vhost_user(stage: &Stage) -> Result<()> {
    let disk = ServedDisk::VhostUser { socket: "disk.sock" };
    runs_from(stage, disk, || Embedded::start_vhost_user(stage, "-c ceph.conf", "rbd:root"))
}

/// Starts a guest twice from an image of our embedded cluster.
fn runs_from(stage: &Stage, disk: ServedDisk, serve: impl FnOnce() -> Result<Embedded>) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    let guest = RootGuest::prepare(stage)?;
    stage.onego("-c ceph.conf cp root.raw rbd:rbd/root")?;
    let server = serve()?;
    guest.runs(disk, "first")?;
    guest.runs(disk, "again")?;
    server.stop()
}

/// A guest whose root file system is in `root.raw` on the stage, from where it goes to the disk that is tried.
pub(in crate::interop) struct RootGuest<'a> {
    stage: &'a Stage,
    guest: Guest,
}

impl<'a> RootGuest<'a> {
    /// Makes the root file system.
    pub(in crate::interop) fn prepare(stage: &'a Stage) -> Result<Self> {
        let guest = Guest::prepare(stage, &VIRTIO_BLK)?;
        guest.make_root(stage, SCRIPT, PROGRAMS, &stage.path("root.raw"), SIZE)?;
        Ok(Self { stage, guest })
    }

    /// Runs it from a disk. What runs `again` finds what the `first` one has written, and there was no other between them.
    pub(in crate::interop) fn runs(&self, disk: ServedDisk, part: &str) -> Result<()> {
        let said = self.guest.start_from_disk(self.stage, disk, QUEUES)?.end()?;
        let works = said.lines().any(|line| line == format!("works: {part}"));
        ensure!(works, "the guest does not say that this works: {part}\n{said}");
        Ok(())
    }
}
