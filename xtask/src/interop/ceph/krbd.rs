//! The kernel's client, in a guest, and ours share a clone that has all features.

use super::shared_images::{both_have, checked};
use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Embedded, RealCeph, Stage, Store};
use crate::guest::{Guest, RBD, Running};
use crate::interop::disk::Random;
use crate::interop::steps::{ensure_pool, fio_without_errors, says};
use crate::sh;
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

const SCRIPT: &str = concat!(include_str!("../../guest/verify.sh"), include_str!("krbd.sh"));

/// Where our server of NBD has the image.
const URI: &str = "nbd://127.0.0.1:10809/rbd/disk";

/// The image's size, and the size of the half that the guest's fio writes to.
const SIZE: usize = 32 << 20;
const HALF: usize = SIZE / 2;

/// On a real cluster.
pub(crate) fn on_real_ceph(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    shared(stage)
}

/// On our embedded cluster.
pub(crate) fn on_ours(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    shared(stage)
}

/// The image is written by the kernel and by us, by turns and at once. The lock is asked for in both directions, and each
/// side takes it from one that died.
fn shared(stage: &Stage) -> Result<()> {
    ensure_pool(stage)?;
    // A part of the parent is a hole.
    let parent = [Random(1).bytes(HALF + HALF / 2), vec![0; HALF / 2]].concat();
    fs::write(stage.path("parent.raw"), parent)?;
    fs::write(stage.path("other.raw"), Random(2).bytes(SIZE))?;
    stage.ceph("rbd import parent.raw rbd/parent")?;
    stage.ceph("rbd snap create rbd/parent@base")?;
    stage.ceph("rbd snap protect rbd/parent@base")?;
    stage.ceph("rbd clone rbd/parent@base rbd/disk")?;
    let info = stage.ceph("rbd info rbd/disk")?;
    for feature in ["exclusive-lock", "object-map", "fast-diff", "parent:"] {
        says(&info, feature)?;
    }
    stage.ceph("rbd create --size 1M --image-feature layering rbd/bell")?;

    let mut guest = start(stage)?;
    kernel_wrote(stage, &mut guest, 1)?;
    let server = asked_of_kernel(stage)?;
    ring(stage, 2)?;
    kernel_wrote(stage, &mut guest, 2)?;
    at_once(stage, &mut guest)?;
    // Ours is killed while it owns the lock.
    write_by_ours(stage)?;
    drop(server);
    ring(stage, 4)?;
    kernel_wrote(stage, &mut guest, 4)?;
    says(&stage.ceph("ceph osd blocklist ls")?, "/")?;
    death_of_kernel(stage, guest)
}

fn start(stage: &Stage) -> Result<Running> {
    let (before, theirs) = (sum(stage, "parent.raw")?, sum(stage, "other.raw")?);
    let script = format!("MONITOR={ADDRESS}\nBEFORE={before}\nTHEIRS={theirs}\n{SCRIPT}");
    Guest::prepare(stage, &RBD)?.start(stage, "guest", &script, &["fio"], &[])
}

/// The sum of a file.
fn sum(stage: &Stage, file: &str) -> Result<String> {
    let said = sh::text(Command::new("sha256sum").arg(stage.path(file)))?;
    Ok(said.split(' ').next().unwrap_or_default().to_owned())
}

/// Says in the guest that it is its turn.
fn ring(stage: &Stage, turn: u32) -> Result<()> {
    fs::write(stage.path("bell.raw"), format!("{:<4096}", format!("turn {turn}\n")))?;
    stage.onego("--conf ceph.conf cp --in-place bell.raw rbd:rbd/bell").map(drop)
}

/// Waits until the kernel has written, and sees what it sees.
fn kernel_wrote(stage: &Stage, guest: &mut Running, turn: u32) -> Result<()> {
    guest.wait_for(&format!("done {turn}"))?;
    owned(stage)?;
    stage.onego("--conf ceph.conf rbd export rbd/disk seen.raw")?;
    let line = format!("sum {turn}: {}", sum(stage, "seen.raw")?);
    ensure!(guest.has_said(&line), "the kernel sees something else than `{line}`");
    both_have(stage, "disk", "seen.raw")?;
    Ok(fs::remove_file(stage.path("seen.raw"))?)
}

fn owned(stage: &Stage) -> Result<()> {
    says(&stage.ceph("rbd lock ls rbd/disk")?, "auto ")
}

/// Our server asks the kernel for the lock, writes the whole image, and keeps the lock.
fn asked_of_kernel(stage: &Stage) -> Result<Embedded> {
    let server = Embedded::start_nbd(stage, "-c ceph.conf", "rbd:rbd/disk")?;
    write_by_ours(stage)?;
    both_have(stage, "disk", "other.raw")?;
    // Whoever checked the object map has taken the lock for that.
    write_by_ours(stage)?;
    Ok(server)
}

/// Writes the whole image by our server, which owns the lock then.
fn write_by_ours(stage: &Stage) -> Result<()> {
    stage.host(&format!("nbdcopy other.raw {URI}"))?;
    owned(stage)
}

/// Both write, each to its half, and verify.
fn at_once(stage: &Stage, guest: &mut Running) -> Result<()> {
    let line = format!(
        "fio --name=ours --ioengine=nbd --uri={URI} --rw=randrw --bs=16k --offset={HALF} --size=8m --loops=4 --iodepth=8 \
         --verify=crc32c --verify_fatal=1 --output-format=json --output=ours.json"
    );
    let ours = Daemon::spawn("fio by us", stage.ceph_daemon(&line), &stage.path("fio.out"))?;
    ring(stage, 3)?;
    guest.wait_for("done 3")?;
    ours.wait()?;
    fio_without_errors(&fs::read_to_string(stage.path("ours.json"))?)?;
    checked(stage, "disk")
}

/// The guest is switched off while it writes: the next writer takes its lock, and nothing of it comes later.
fn death_of_kernel(stage: &Stage, mut guest: Running) -> Result<()> {
    ring(stage, 5)?;
    guest.wait_for("done 5")?;
    owned(stage)?;
    drop(guest);
    stage.onego("--conf ceph.conf cp --in-place other.raw rbd:rbd/disk")?;
    both_have(stage, "disk", "other.raw")?;
    for line in [
        "rbd rm rbd/disk",
        "rbd snap unprotect rbd/parent@base",
        "rbd snap purge rbd/parent",
        "rbd rm rbd/parent",
    ] {
        stage.ceph(line)?;
    }
    Ok(())
}
