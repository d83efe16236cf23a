//! Images that both sides use: imports and exports, shared writing, and operations that the lock's owner runs.

use super::{
    BusyImage, both_export, check_report, each_step, fio_on_nbd, map_is_valid, run_step, same_file, script,
    wait_for_lock,
};
use crate::steps::{FIO, fio_without_errors, json, says, says_error};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Daemon, Sandbox, Server, disk};
use std::fs;

pub(super) fn import_export(sandbox: &Sandbox) -> Result<()> {
    let onego = |line: &str| sandbox.onego(&format!("--conf ceph.conf {line}"));
    disk::make(&sandbox.path("disk.raw"), 1)?;
    onego("rbd import disk.raw rbd/ours")?;
    sandbox.ceph("rbd export rbd/ours from-ours.raw")?;
    same_file(sandbox, "disk.raw", "from-ours.raw")?;
    let (objects, expected) = (data_objects(sandbox)?, disk::objects_with_data());
    ensure!(objects == expected, "the import wrote holes: {objects} objects, but {expected} have data");
    let info = sandbox.ceph("rbd info --format json rbd/ours")?;
    says(&info, &format!("\"size\":{}", disk::SIZE))?;

    // An image with Ceph's default features, and one with those that every krbd supports.
    let plain = "rbd import --image-feature layering disk.raw rbd/plain";
    script(sandbox, &format!("rbd import disk.raw rbd/theirs; {plain}"))?;
    for image in ["rbd/theirs", "rbd/plain"] {
        onego(&format!("rbd export {image} exported.raw"))?;
        ensure!(disk::is_sparse(&sandbox.path("exported.raw"))?, "the export of {image} has no holes");
        same_file(sandbox, "disk.raw", "exported.raw")?;
    }
    let (ours, theirs) = (onego("rbd ls rbd")?, sandbox.ceph("rbd ls rbd")?);
    ensure!(sorted(&ours) == ["ours", "plain", "theirs"], "`onego rbd ls` says {ours}");
    ensure!(sorted(&ours) == sorted(&theirs), "`rbd ls` says {theirs}");

    clone(sandbox)?;
    resize(sandbox)?;
    script(sandbox, "onego rbd rm rbd/ours; onego rbd rm rbd/plain; rbd rm rbd/theirs")?;
    let left = data_objects(sandbox)?;
    ensure!(left == 0, "{left} data objects are left after the images were removed");
    let listed = sandbox.ceph("rbd ls rbd")?;
    ensure!(listed.trim().is_empty(), "`rbd ls` says {listed} after the images were removed");
    Ok(())
}

/// Describes and reads a clone that has no data but its parent's.
fn clone(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rbd snap create rbd/plain@before")?;
    let refused = sandbox.onego_fails("--conf ceph.conf rbd rm rbd/plain")?;
    says_error(&refused, "image rbd/plain has 1 snapshots")?;
    ensure!(refused.status.code() == Some(5), "`onego rbd rm rbd/plain` ends with {}", refused.status);
    script(sandbox, "rbd snap protect rbd/plain@before; rbd clone rbd/plain@before rbd/clone")?;
    says(&sandbox.onego("--conf ceph.conf rbd info rbd/clone")?, "parent: rbd/plain@before")?;
    sandbox.onego("--conf ceph.conf rbd export rbd/clone from-clone.raw")?;
    same_file(sandbox, "disk.raw", "from-clone.raw")?;
    script(sandbox, "rbd rm rbd/clone; rbd snap unprotect rbd/plain@before; rbd snap rm rbd/plain@before")
}

/// Shrinks and grows an image, which then has zeros where it was cut.
fn resize(sandbox: &Sandbox) -> Result<()> {
    let grow = format!("onego rbd resize --size {}B rbd/ours; rbd export rbd/ours resized.raw", disk::SIZE);
    script(sandbox, &format!("onego rbd resize --size 42M --allow-shrink rbd/ours; {grow}"))?;
    fs::copy(sandbox.path("disk.raw"), sandbox.path("expected.raw"))?;
    let file = fs::File::options().write(true).open(sandbox.path("expected.raw"))?;
    file.set_len(42 << 20)?;
    file.set_len(disk::SIZE)?;
    same_file(sandbox, "expected.raw", "resized.raw")
}

/// Returns the number of the pool's objects with data of images.
fn data_objects(sandbox: &Sandbox) -> Result<usize> {
    Ok(sandbox.ceph("rados --pool rbd ls")?.lines().filter(|name| name.starts_with("rbd_data.")).count())
}

fn sorted(list: &str) -> Vec<&str> {
    let mut names: Vec<_> = list.split_whitespace().collect();
    names.sort_unstable();
    names
}

/// Shares an image with all features of `rbd create`, also when the owner of its lock is killed.
pub(super) fn shared(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 1)?;
    disk::make(&sandbox.path("other.raw"), 2)?;
    sandbox.ceph(&format!("rbd create --size {}B rbd/disk", disk::SIZE))?;
    let info = sandbox.ceph("rbd info rbd/disk")?;
    says(&info, "exclusive-lock")?;
    says(&info, "object-map")?;
    alternately(sandbox, "rbd/disk")?;
    concurrently(sandbox, "rbd/disk")?;
    kill_owners(sandbox, "rbd/disk")?;
    resized(sandbox, "rbd/disk")?;
    sandbox.onego("rbd rm rbd/disk")?;
    let left = sandbox.ceph("rados --pool rbd ls")?;
    ensure!(!left.contains("rbd_data.") && !left.contains("rbd_object_map."), "objects are left:\n{left}");
    Ok(())
}

/// Shares a clone of a clone.
pub(super) fn clones(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 1)?;
    disk::make(&sandbox.path("other.raw"), 2)?;
    // Clones of format 2 may be in another namespace than their parents. The parents change after the clones.
    let steps = "rbd import disk.raw rbd/old; ceph osd pool create far 8; rbd pool init far
rbd namespace create far/there; rbd snap create rbd/old@base
rbd clone --rbd-default-clone-format 2 rbd/old@base far/there/middle; write rbd/old 64K 8M
rbd snap create far/there/middle@base
rbd clone --rbd-default-clone-format 2 far/there/middle@base rbd/new; write far/there/middle 64K 8M";
    script(sandbox, steps)?;
    both_have(sandbox, "rbd/new", "disk.raw")?;
    concurrently(sandbox, "rbd/new")?;
    // The first writes after the snapshot preserve its data.
    script(sandbox, "save rbd/new model; has rbd/new model; map rbd/new; rbd snap create rbd/new@kept")?;
    alternately(sandbox, "rbd/new")?;
    script(sandbox, "has rbd/new@kept model; map rbd/new")?;
    resized(sandbox, "rbd/new")
}

/// Writes an image by us, by librbd, and by us again.
fn alternately(sandbox: &Sandbox, image: &str) -> Result<()> {
    sandbox.onego(&format!("cp --in-place disk.raw rbd:{image}"))?;
    both_have(sandbox, image, "disk.raw")?;
    let name = image.trim_start_matches("rbd/");
    let engine = format!("--ioengine=rbd --rbdname={name} --size=64m");
    fio_without_errors(&sandbox.ceph(&format!("fio --name=theirs --rw=randrw --bs=64k {engine} {FIO}"))?)?;
    sandbox.onego(&format!("cp --in-place other.raw rbd:{image}"))?;
    both_have(sandbox, image, "other.raw")
}

/// Checks that both sides read the content of `file` and that the object map is valid.
pub(crate) fn both_have(sandbox: &Sandbox, image: &str, file: &str) -> Result<()> {
    both_export(sandbox, image, file, ["", ""])?;
    map_is_valid(sandbox, image)
}

/// Verifies one half of an image by librbd and the other through our server at the same time.
fn concurrently(sandbox: &Sandbox, image: &str) -> Result<()> {
    let server = Server::nbd(sandbox, &format!("rbd:{image}"))?;
    let ours = fio_on_nbd("ours", image, "--offset=32m --size=24m");
    let theirs = format!(
        "fio --name=theirs --ioengine=rbd --clientname=admin --pool=rbd --rbdname={} --iodepth=8 --rw=randrw --bs=16k \
         --size=24m --verify=crc32c --verify_fatal=1 --output-format=json --output=theirs.json",
        image.trim_start_matches("rbd/")
    );
    let start = |name: &str, line| Daemon::spawn(name, sandbox.ceph_daemon(line), &sandbox.path("fio.out"));
    let ours = start("fio by us", &ours)?;
    let theirs = start("fio by librbd", &theirs)?;
    ours.wait()?;
    theirs.wait()?;
    check_report(sandbox, "ours")?;
    check_report(sandbox, "theirs")?;
    server.stop()?;
    map_is_valid(sandbox, image)
}

/// Kills our server while it owns the lock: librbd blocklists it and takes the lock; then the other way round.
fn kill_owners(sandbox: &Sandbox, image: &str) -> Result<()> {
    let server = Server::nbd(sandbox, &format!("rbd:{image}"))?;
    sandbox.ceph(&format!("nbdcopy disk.raw nbd://127.0.0.1:10809/{image}"))?;
    says(&sandbox.ceph(&format!("rbd lock ls {image}"))?, "auto ")?;
    drop(server);
    let bench = |total: &str| {
        let line = format!("rbd bench --io-type write --io-size 4K --io-total {total} {image}");
        Daemon::spawn("rbd bench", sandbox.ceph_daemon(&line), &sandbox.path("bench.out"))
    };
    bench("1M")?.wait()?;
    says(&sandbox.ceph("ceph osd blocklist ls")?, "/")?;
    let mut endless = bench("64G")?;
    wait_for_lock(sandbox, &mut endless, image)?;
    drop(endless);
    sandbox.onego(&format!("cp --in-place disk.raw rbd:{image}"))?;
    both_have(sandbox, image, "disk.raw")
}

fn resized(sandbox: &Sandbox, image: &str) -> Result<()> {
    for size in ["42M", "300M"] {
        script(sandbox, &format!("onego rbd resize --size {size} --allow-shrink {image}; map {image}"))?;
    }
    script(sandbox, &format!("rbd export {image} resized.raw; onego rbd export {image} ours.raw"))?;
    same_file(sandbox, "resized.raw", "ours.raw")
}

/// Requests operations on an image that our server writes: it runs them as the lock's owner and keeps the lock.
pub(super) fn owner_operations(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 1)?;
    let clone = "rbd clone --rbd-default-clone-format 2 rbd/old@base rbd/disk";
    script(sandbox, &format!("rbd import disk.raw rbd/old; rbd snap create rbd/old@base; {clone}"))?;
    let busy = BusyImage::start(sandbox, "rbd/disk", 400)?;
    let request = |steps: &str| {
        each_step(steps, |step| {
            run_step(sandbox, step)?;
            busy.check_owner("rbd/disk").or_else(|_| busy.check_owner("rbd/other"))
        })
    };
    request("rbd snap create rbd/disk@one; rbd snap rename rbd/disk@one rbd/disk@two")?;
    request("rbd snap protect rbd/disk@two")?;
    sandbox.ceph_fails("rbd snap rm rbd/disk@two")?;
    sandbox.ceph_fails("rbd snap create rbd/disk@two")?;
    request("rbd snap unprotect rbd/disk@two; rbd snap create rbd/disk@kept; save rbd/disk@kept kept")?;
    request("rbd snap rm rbd/disk@two")?;
    let listed = sandbox.ceph("rbd snap ls rbd/disk")?;
    ensure!(listed.contains("kept") && !listed.contains("two"), "`rbd snap ls` says\n{listed}");
    request("rbd resize --size 300M rbd/disk; rbd resize --size 120M --allow-shrink rbd/disk")?;
    request("rbd flatten rbd/disk")?;
    let info = json(&sandbox.ceph("rbd info --format json rbd/disk")?)?;
    ensure!(info.get("parent").is_none(), "rbd/disk has a parent after it was flattened: {info}");
    request(
        "rbd object-map rebuild rbd/disk; rbd sparsify rbd/disk; rbd image-meta set rbd/disk colour blue",
    )?;
    says(&sandbox.ceph("rbd image-meta get rbd/disk colour")?, "blue")?;
    request(
        "rbd image-meta remove rbd/disk colour; rbd feature disable rbd/disk object-map fast-diff
rbd feature enable rbd/disk object-map fast-diff; rbd object-map rebuild rbd/disk
rbd rename rbd/disk rbd/other; rbd rename rbd/other rbd/disk",
    )?;
    let owner = busy.owner.clone();
    let server = busy.finish()?;
    script(sandbox, "rbd export rbd/disk@kept again.raw; rbd snap rm rbd/disk@kept")?;
    same_file(sandbox, "kept.raw", "again.raw").context("the snapshot changed")?;
    ensure!(sandbox.ceph("rbd lock ls rbd/disk")? == owner, "another client holds the lock");
    server.stop()?;
    script(sandbox, "map rbd/disk; rbd export rbd/disk theirs.raw; onego rbd export rbd/disk ours.raw")?;
    same_file(sandbox, "theirs.raw", "ours.raw")
}
