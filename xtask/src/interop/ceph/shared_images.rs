//! Images with all the features that `rbd create` gives them, which we and librbd write by turns and at once.

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::{FIO, fio_without_errors, json, says};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::time::Duration;

/// Where our server of NBD is.
const BASE: &str = "nbd://127.0.0.1:10809";

/// How long our server may go on after it was killed without the other side taking its lock.
const PATIENCE: Duration = Duration::from_secs(90);

/// Writes by turns and at once; the lock changes hands; the dead lose it.
pub(crate) fn shared(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    disk::make(&stage.path("disk.raw"), 1)?;
    disk::make(&stage.path("other.raw"), 2)?;
    stage.ceph(&format!("rbd create --size {}B rbd/disk", disk::SIZE))?;
    let info = stage.ceph("rbd info rbd/disk")?;
    says(&info, "exclusive-lock")?;
    says(&info, "object-map")?;
    turns(stage, "disk")?;
    at_once(stage, "disk")?;
    death(stage, "disk")?;
    resized(stage, "disk")?;
    stage.onego("--conf ceph.conf rbd rm rbd/disk")?;
    let left = stage.ceph("rados --pool rbd ls")?;
    ensure!(!left.contains("rbd_data.") && !left.contains("rbd_object_map."), "something is left:\n{left}");
    Ok(())
}

/// A clone of a clone, in all ways that an image is written.
pub(crate) fn clones(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    disk::make(&stage.path("disk.raw"), 1)?;
    disk::make(&stage.path("other.raw"), 2)?;
    stage.ceph("rbd import disk.raw rbd/old")?;
    stage.ceph("ceph osd pool create far 8")?;
    stage.ceph("rbd pool init far")?;
    stage.ceph("rbd namespace create far/there")?;
    for (parent, child) in [("rbd/old", "far/there/middle"), ("far/there/middle", "rbd/new")] {
        stage.ceph(&format!("rbd snap create {parent}@base"))?;
        // Clones of this form may be in another namespace than their parents.
        stage.ceph(&format!("rbd clone --rbd-default-clone-format 2 {parent}@base {child}"))?;
        // The parent is not what it was when it was cloned.
        stage.ceph(&format!(
            "rbd bench --io-type write --io-size 64K --io-total 8M --io-pattern rand {parent}"
        ))?;
    }
    both_have(stage, "new", "disk.raw")?;
    at_once(stage, "new")?;
    let model = stage.path("model.raw");
    stage.ceph("rbd export rbd/new model.raw")?;
    both_have(stage, "new", "model.raw")?;
    // From now on its first writes keep what the snapshot shows.
    stage.ceph("rbd snap create rbd/new@kept")?;
    turns(stage, "new")?;
    stage
        .onego("--conf ceph.conf rbd export rbd/new@kept kept.raw")
        .map(drop)
        .or_else(|_| stage.ceph("rbd export rbd/new@kept kept.raw").map(drop))?;
    disk::compare(&model, &stage.path("kept.raw"))?;
    checked(stage, "new")?;
    resized(stage, "new")
}

/// One writes the whole image, then the other.
fn turns(stage: &Stage, image: &str) -> Result<()> {
    stage.onego(&format!("--conf ceph.conf cp --in-place disk.raw rbd:rbd/{image}"))?;
    both_have(stage, image, "disk.raw")?;
    let engine = format!("--ioengine=rbd --rbdname={image} --size=64m");
    fio_without_errors(&stage.ceph(&format!("fio --name=theirs --rw=randrw --bs=64k {engine} {FIO}"))?)?;
    stage.onego(&format!("--conf ceph.conf cp --in-place other.raw rbd:rbd/{image}"))?;
    both_have(stage, image, "other.raw")
}

/// Both sides see the same, and the object map is true.
pub(super) fn both_have(stage: &Stage, image: &str, file: &str) -> Result<()> {
    stage.ceph(&format!("rbd export rbd/{image} theirs.raw"))?;
    stage.onego(&format!("--conf ceph.conf rbd export rbd/{image} ours.raw"))?;
    for exported in ["theirs.raw", "ours.raw"] {
        disk::compare(&stage.path(file), &stage.path(exported)).with_context(|| exported.to_owned())?;
        fs::remove_file(stage.path(exported))?;
    }
    checked(stage, image)
}

/// `rbd` finds nothing wrong with the object map.
pub(super) fn checked(stage: &Stage, image: &str) -> Result<()> {
    stage.ceph(&format!("rbd object-map check rbd/{image}"))?;
    let info = json(&stage.ceph(&format!("rbd info --format json rbd/{image}"))?)?;
    ensure!(info["flags"].as_array().is_some_and(Vec::is_empty), "the object map is damaged: {info}");
    Ok(())
}

/// fio verifies one half by librbd and the other by our server, at the same time.
fn at_once(stage: &Stage, image: &str) -> Result<()> {
    let server = Embedded::start_nbd(stage, "-c ceph.conf", &format!("rbd:rbd/{image}"))?;
    let common = "--rw=randrw --bs=16k --size=24m --verify=crc32c --verify_fatal=1 --output-format=json";
    let ours = format!(
        "fio --name=ours --ioengine=nbd --uri={BASE}/rbd/{image} --offset=32m --iodepth=8 {common} --output=ours.json"
    );
    let theirs = format!(
        "fio --name=theirs --ioengine=rbd --clientname=admin --pool=rbd --rbdname={image} --iodepth=8 {common} \
         --output=theirs.json"
    );
    let ours = Daemon::spawn("fio by us", stage.ceph_daemon(&ours), &stage.path("fio-ours.out"))?;
    let theirs = Daemon::spawn("fio by librbd", stage.ceph_daemon(&theirs), &stage.path("fio-theirs.out"))?;
    ours.wait()?;
    theirs.wait()?;
    for report in ["ours.json", "theirs.json"] {
        fio_without_errors(&fs::read_to_string(stage.path(report))?).with_context(|| report.to_owned())?;
        fs::remove_file(stage.path(report))?;
    }
    server.stop()?;
    checked(stage, image)
}

/// Our server is killed while it owns the lock: librbd shuts it out and takes the lock; and the other way round.
fn death(stage: &Stage, image: &str) -> Result<()> {
    let server = Embedded::start_nbd(stage, "-c ceph.conf", &format!("rbd:rbd/{image}"))?;
    stage.host(&format!("nbdcopy disk.raw {BASE}/rbd/{image}"))?;
    says(&stage.ceph(&format!("rbd lock ls rbd/{image}"))?, "auto ")?;
    drop(server);
    let line = format!("rbd bench --io-type write --io-size 4K --io-total 1M rbd/{image}");
    let bench = Daemon::spawn("rbd bench", stage.ceph_daemon(&line), &stage.path("bench.out"))?;
    bench.wait()?;
    says(&stage.ceph("ceph osd blocklist ls")?, "/")?;
    let line = format!("rbd bench --io-type write --io-size 4K --io-total 64G rbd/{image}");
    let mut bench = Daemon::spawn("rbd bench", stage.ceph_daemon(&line), &stage.path("endless.out"))?;
    bench.wait_until("its lock", PATIENCE, || {
        stage.ceph(&format!("rbd lock ls rbd/{image}")).is_ok_and(|said| said.contains("auto "))
    })?;
    drop(bench);
    stage.onego(&format!("--conf ceph.conf cp --in-place disk.raw rbd:rbd/{image}"))?;
    both_have(stage, image, "disk.raw")
}

/// Sizes that we change, as the other side sees them.
fn resized(stage: &Stage, image: &str) -> Result<()> {
    for size in ["42M", "300M"] {
        stage.onego(&format!("--conf ceph.conf rbd resize --size {size} --allow-shrink rbd/{image}"))?;
        checked(stage, image)?;
    }
    stage.ceph(&format!("rbd export rbd/{image} resized.raw"))?;
    stage.onego(&format!("--conf ceph.conf rbd export rbd/{image} ours.raw"))?;
    let (theirs, ours) = (stage.path("resized.raw"), stage.path("ours.raw"));
    disk::compare(&theirs, &ours)?;
    fs::remove_file(theirs)?;
    Ok(fs::remove_file(ours)?)
}
