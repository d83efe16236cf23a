//! Images that one side writes and the other reads.

use crate::cluster::{RealCeph, Stage, Store};
use crate::interop::disk;
use anyhow::{Result, ensure};
use std::fs;

/// What we import Ceph exports, what Ceph imports we export, and what we remove is gone.
pub(crate) fn import_export(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    disk::make(&stage.path("disk.raw"), 1)?;

    stage.onego("--conf ceph.conf rbd import disk.raw rbd/ours")?;
    stage.ceph("rbd export rbd/ours from-ours.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("from-ours.raw"))?;
    let objects = data_objects(stage)?;
    ensure!(
        objects == disk::objects_with_data(),
        "the import made {objects} objects, but {} have data: holes were written",
        disk::objects_with_data()
    );
    let info = stage.ceph("rbd info --format json rbd/ours")?;
    ensure!(info.contains(&format!("\"size\":{}", disk::SIZE)), "`rbd info` says {info}");

    // One image as Ceph makes them by itself, and one with the features that krbd always had.
    stage.ceph("rbd import disk.raw rbd/theirs")?;
    stage.ceph("rbd import --image-feature layering disk.raw rbd/plain")?;
    for image in ["theirs", "plain"] {
        let exported = format!("from-{image}.raw");
        stage.onego(&format!("--conf ceph.conf rbd export rbd/{image} {exported}"))?;
        disk::compare(&stage.path("disk.raw"), &stage.path(&exported))?;
        ensure!(disk::is_sparse(&stage.path(&exported))?, "{exported} has no holes");
    }

    let ours = stage.onego("--conf ceph.conf rbd ls rbd")?;
    let theirs = stage.ceph("rbd ls rbd")?;
    ensure!(sorted(&ours) == ["ours", "plain", "theirs"], "`onego rbd ls` says {ours}");
    ensure!(sorted(&ours) == sorted(&theirs), "`rbd ls` says {theirs}");

    clone(stage)?;
    resize(stage)?;
    stage.onego("--conf ceph.conf rbd rm rbd/ours")?;
    stage.onego("--conf ceph.conf rbd rm rbd/plain")?;
    stage.ceph("rbd rm rbd/theirs")?;
    let left = data_objects(stage)?;
    ensure!(left == 0, "{left} data objects are left after the images were removed");
    let listed = stage.ceph("rbd ls rbd")?;
    ensure!(listed.trim().is_empty(), "`rbd ls` says {listed} after the images were removed");
    Ok(())
}

/// What we import, as `ours` runs a line of the `onego` program, both sides export, byte for byte.
pub(crate) fn round_trip(stage: &Stage, ours: impl Fn(&str) -> Result<String>) -> Result<()> {
    ours("rbd import disk.raw rbd/disk")?;
    both_export(stage, &ours, |line| stage.ceph(line))?;
    ours("rbd rm rbd/disk").map(drop)
}

/// What both sides export of `rbd/disk` is `disk.raw`. `ours` and `theirs` run a line of the side's program.
pub(crate) fn both_export(
    stage: &Stage,
    ours: impl Fn(&str) -> Result<String>,
    theirs: impl Fn(&str) -> Result<String>,
) -> Result<()> {
    ours("rbd export rbd/disk ours.raw")?;
    theirs("rbd export rbd/disk theirs.raw")?;
    for exported in ["ours.raw", "theirs.raw"] {
        disk::compare(&stage.path("disk.raw"), &stage.path(exported))?;
        fs::remove_file(stage.path(exported))?;
    }
    Ok(())
}

/// A clone is described, with its parent, and read: what it lacks is there.
fn clone(stage: &Stage) -> Result<()> {
    stage.ceph("rbd snap create rbd/plain@before")?;
    let refused = stage.onego_fails("--conf ceph.conf rbd rm rbd/plain")?;
    let reason = String::from_utf8_lossy(&refused.stderr);
    ensure!(
        refused.status.code() == Some(5) && reason.contains("image rbd/plain has 1 snapshots"),
        "`onego rbd rm` of an image with a snapshot ends with {}: {reason}",
        refused.status
    );
    stage.ceph("rbd snap protect rbd/plain@before")?;
    stage.ceph("rbd clone rbd/plain@before rbd/clone")?;
    let info = stage.onego("--conf ceph.conf rbd info rbd/clone")?;
    ensure!(info.contains("parent: rbd/plain@before"), "`onego rbd info` says {info}");
    stage.onego("--conf ceph.conf rbd export rbd/clone from-clone.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("from-clone.raw"))?;
    stage.ceph("rbd rm rbd/clone")?;
    stage.ceph("rbd snap unprotect rbd/plain@before")?;
    stage.ceph("rbd snap rm rbd/plain@before").map(drop)
}

/// An image that we made smaller and larger again has zeroes where it was cut, as Ceph sees it.
fn resize(stage: &Stage) -> Result<()> {
    const CUT: u64 = 42 << 20;
    stage.onego("--conf ceph.conf rbd resize --size 42M --allow-shrink rbd/ours")?;
    stage.onego(&format!("--conf ceph.conf rbd resize --size {}B rbd/ours", disk::SIZE))?;
    stage.ceph("rbd export rbd/ours resized.raw")?;
    let expected = stage.path("expected.raw");
    fs::copy(stage.path("disk.raw"), &expected)?;
    let file = fs::File::options().write(true).open(&expected)?;
    file.set_len(CUT)?;
    file.set_len(disk::SIZE)?;
    disk::compare(&expected, &stage.path("resized.raw"))
}

/// How many objects of the pool hold data of images.
fn data_objects(stage: &Stage) -> Result<usize> {
    Ok(stage.ceph("rados --pool rbd ls")?.lines().filter(|name| name.starts_with("rbd_data.")).count())
}

fn sorted(list: &str) -> Vec<&str> {
    let mut names: Vec<_> = list.split_whitespace().collect();
    names.sort_unstable();
    names
}
