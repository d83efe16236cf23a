//! Changes that `rbd` asks for of an image that our server has open and is writing: we carry them out as the lock's owner.

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::{fio_without_errors, json, says};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::time::Duration;

/// Where our server of NBD is.
const BASE: &str = "nbd://127.0.0.1:10809";

/// How long fio may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// What fio does to the image meanwhile, in the part that no change takes away.
const LOAD: &str = "fio --name=load --ioengine=nbd --offset=32m --size=24m --rw=randrw --bs=16k --iodepth=8 \
                    --rate_iops=400,400 --verify=crc32c --verify_fatal=1 --loops=12 --output-format=json --output=load.json";

/// Each change succeeds while the load goes on, and none of them takes the lock away from us.
pub(crate) fn operations(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    disk::make(&stage.path("disk.raw"), 1)?;
    stage.ceph("rbd import disk.raw rbd/old")?;
    stage.ceph("rbd snap create rbd/old@base")?;
    stage.ceph("rbd clone --rbd-default-clone-format 2 rbd/old@base rbd/disk")?;
    let server = Embedded::start_nbd(stage, "-c ceph.conf", "rbd:rbd/disk")?;
    let fio = format!("{LOAD} --uri={BASE}/rbd/disk");
    let mut load = Daemon::spawn("fio", stage.ceph_daemon(&fio), &stage.path("fio.out"))?;
    let lock = || stage.ceph("rbd lock ls rbd/disk");
    load.wait_until("its lock", PATIENCE, || lock().is_ok_and(|said| said.contains("auto ")))?;
    let owner = lock()?;
    let asked = |line: &str| -> Result<()> {
        stage.ceph(line).with_context(|| line.to_owned())?;
        let now = stage.ceph("rbd lock ls rbd/disk").or_else(|_| stage.ceph("rbd lock ls rbd/other"))?;
        ensure!(now == owner, "after `{line}` another client has the lock:\n{now}");
        Ok(())
    };
    snapshots(stage, &asked)?;
    asked("rbd resize --size 300M rbd/disk")?;
    asked("rbd resize --size 120M --allow-shrink rbd/disk")?;
    asked("rbd flatten rbd/disk")?;
    ensure!(
        json(&stage.ceph("rbd info --format json rbd/disk")?)?.get("parent").is_none(),
        "it has a parent"
    );
    asked("rbd object-map rebuild rbd/disk")?;
    asked("rbd sparsify rbd/disk")?;
    asked("rbd image-meta set rbd/disk colour blue")?;
    says(&stage.ceph("rbd image-meta get rbd/disk colour")?, "blue")?;
    asked("rbd image-meta remove rbd/disk colour")?;
    asked("rbd feature disable rbd/disk object-map fast-diff")?;
    asked("rbd feature enable rbd/disk object-map fast-diff")?;
    asked("rbd object-map rebuild rbd/disk")?;
    asked("rbd rename rbd/disk rbd/other")?;
    asked("rbd rename rbd/other rbd/disk")?;
    load.check_alive()?;
    load.wait()?;
    fio_without_errors(&fs::read_to_string(stage.path("load.json"))?)?;
    kept(stage)?;
    asked("rbd snap rm rbd/disk@kept")?;
    server.stop()?;
    checked(stage)
}

/// A snapshot is made, named, kept from removal, and removed.
fn snapshots(stage: &Stage, asked: &impl Fn(&str) -> Result<()>) -> Result<()> {
    asked("rbd snap create rbd/disk@one")?;
    asked("rbd snap rename rbd/disk@one rbd/disk@two")?;
    asked("rbd snap protect rbd/disk@two")?;
    stage.ceph_fails("rbd snap rm rbd/disk@two")?;
    stage.ceph_fails("rbd snap create rbd/disk@two")?;
    asked("rbd snap unprotect rbd/disk@two")?;
    asked("rbd snap create rbd/disk@kept")?;
    stage.ceph("rbd export rbd/disk@kept kept.raw")?;
    asked("rbd snap rm rbd/disk@two")?;
    let listed = stage.ceph("rbd snap ls rbd/disk")?;
    ensure!(listed.contains("kept") && !listed.contains("two"), "`rbd snap ls` says\n{listed}");
    Ok(())
}

/// What was written since the snapshot does not show in it.
fn kept(stage: &Stage) -> Result<()> {
    stage.ceph("rbd export rbd/disk@kept again.raw")?;
    disk::compare(&stage.path("kept.raw"), &stage.path("again.raw"))
}

/// The object map is true, and both sides see the same.
fn checked(stage: &Stage) -> Result<()> {
    stage.ceph("rbd object-map check rbd/disk")?;
    let info = json(&stage.ceph("rbd info --format json rbd/disk")?)?;
    ensure!(info["flags"].as_array().is_some_and(Vec::is_empty), "the object map is damaged: {info}");
    stage.ceph("rbd export rbd/disk theirs.raw")?;
    stage.onego("--conf ceph.conf rbd export rbd/disk ours.raw")?;
    disk::compare(&stage.path("theirs.raw"), &stage.path("ours.raw"))
}
