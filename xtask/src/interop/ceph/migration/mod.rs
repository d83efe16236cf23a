//! Images that are moved: each step by `rbd` or by us, while either side uses the destination.

pub(in crate::interop) mod imports;

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::{fio_without_errors, json, nothing_is_left};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::time::Duration;

/// Where our server of NBD is.
const BASE: &str = "nbd://127.0.0.1:10809";

/// Our program, and Ceph's.
const OURS: &str = "onego";
const THEIRS: &str = "rbd";

/// How long OSDs may take to remove what snapshots kept.
const PATIENCE: Duration = Duration::from_secs(90);

/// What an image looks like, now and at its snapshots.
const TIMES: [&str; 3] = ["", "@one", "@two"];

/// A migration: who prepares, executes and commits it, where to, and how the image changes.
struct Move {
    steps: [&'static str; 3],
    to: &'static str,
    options: &'static str,
}

const MOVES: &[Move] = &[
    Move { steps: [OURS, OURS, OURS], to: "far/one", options: "" },
    Move { steps: [OURS, THEIRS, OURS], to: "rbd/two", options: "--object-size 1M --data-pool data" },
    Move { steps: [THEIRS, OURS, THEIRS], to: "far/there/three", options: "--object-size 8M" },
    Move { steps: [THEIRS, THEIRS, OURS], to: "rbd/four", options: "" },
    Move { steps: [OURS, OURS, THEIRS], to: "rbd/five", options: "--image-feature layering" },
];

/// Images with snapshots and without, clones, and images that are in use.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let _ceph = start(stage)?;
    in_use(stage)?;
    plain(stage)?;
    aborted(stage)?;
    clone(stage)?;
    parent(stage)?;
    snapshots(stage)?;
    nothing_left(stage)
}

/// A cluster with pools to move images between, and what they have.
fn start(stage: &Stage) -> Result<RealCeph<'_>> {
    let ceph = RealCeph::start(stage, Store::Memory)?;
    disk::make(&stage.path("disk.raw"), 1)?;
    disk::make(&stage.path("other.raw"), 2)?;
    for line in ["ceph osd pool create far 8", "rbd pool init far", "rbd namespace create far/there"] {
        stage.ceph(line)?;
    }
    stage.ceph("ceph osd pool create data 8")?;
    stage.ceph("rbd pool init data")?;
    Ok(ceph)
}

fn by(stage: &Stage, program: &str, line: &str) -> Result<String> {
    let done = if program == OURS {
        stage.onego(&format!("--conf ceph.conf rbd {line}"))
    } else {
        stage.ceph(&format!("rbd {line}"))
    };
    done.with_context(|| format!("{program}: {line}"))
}

/// Writes to an image by librbd.
fn scribble(stage: &Stage, image: &str) -> Result<()> {
    let bench = "rbd bench --io-type write --io-size 16K --io-total 6M --io-pattern rand";
    stage.ceph(&format!("{bench} {image}")).map(drop)
}

/// Both sides see an image, and what it was at its snapshots, as the files have it.
fn seen(stage: &Stage, image: &str, times: &[&str]) -> Result<()> {
    for time in times {
        for program in [OURS, THEIRS] {
            by(stage, program, &format!("export {image}{time} seen.raw"))?;
            let (expected, seen) = (stage.path(&format!("model{time}.raw")), stage.path("seen.raw"));
            disk::compare(&expected, &seen).with_context(|| format!("{program} sees {image}{time}"))?;
            fs::remove_file(seen)?;
        }
    }
    Ok(())
}

/// Keeps what an image is now.
fn model(stage: &Stage, image: &str, time: &str) -> Result<()> {
    let file = format!("model{time}.raw");
    if stage.path(&file).exists() {
        fs::remove_file(stage.path(&file))?;
    }
    stage.ceph(&format!("rbd export {image}{time} {file}")).map(drop)
}

fn checked(stage: &Stage, image: &str) -> Result<()> {
    let info = json(&stage.ceph(&format!("rbd info --format json {image}"))?)?;
    let features = info["features"].as_array().context("no features")?;
    ensure!(!features.iter().any(|feature| feature == "migrating"), "it is still being moved: {info}");
    if features.iter().any(|feature| feature == "object-map") {
        let said = stage.ceph_words(&["sh", "-c", &format!("rbd object-map check {image} 2>&1")])?;
        for snapshot in ["one", "two"] {
            // An image without snapshots has none to check.
            if stage.ceph(&format!("rbd snap ls {image}"))?.contains(snapshot) {
                stage.ceph(&format!("rbd object-map check {image}@{snapshot}"))?;
            }
        }
        let info = json(&stage.ceph(&format!("rbd info --format json {image}"))?)?;
        ensure!(info["flags"].as_array().is_some_and(Vec::is_empty), "a map is damaged: {info}\n{said}");
    }
    Ok(())
}

/// An image with two snapshots goes from place to place.
fn snapshots(stage: &Stage) -> Result<()> {
    stage.ceph("rbd import disk.raw rbd/zero")?;
    stage.ceph("rbd snap create rbd/zero@one")?;
    stage.onego("--conf ceph.conf cp --in-place other.raw rbd:rbd/zero")?;
    stage.ceph("rbd snap create rbd/zero@two")?;
    scribble(stage, "rbd/zero")?;
    TIMES.iter().try_for_each(|time| model(stage, "rbd/zero", time))?;
    let mut from = "rbd/zero";
    for Move { steps: [prepare, execute, commit], to, options } in MOVES {
        by(stage, prepare, &format!("migration prepare {options} {from} {to}"))?;
        seen(stage, to, &TIMES).context("prepared")?;
        scribble(stage, to)?;
        ours_writes(stage, to)?;
        model(stage, to, "")?;
        seen(stage, to, &TIMES).context("written")?;
        by(stage, execute, &format!("migration execute {to}"))?;
        seen(stage, to, &TIMES).context("executed")?;
        by(stage, commit, &format!("migration commit {to}"))?;
        seen(stage, to, &TIMES).context("committed")?;
        checked(stage, to)?;
        from = to;
    }
    removed(stage, from)
}

/// Removes an image and its snapshots.
fn removed(stage: &Stage, image: &str) -> Result<()> {
    stage.ceph(&format!("rbd snap purge {image}"))?;
    stage.ceph(&format!("rbd rm {image}")).map(drop)
}

/// Nothing is left of images that are removed, and of what they were before they moved.
fn nothing_left(stage: &Stage) -> Result<()> {
    let parts = ["rbd_data.", "rbd_object_map."];
    nothing_is_left(stage, &["rbd", "far", "data"], &parts, PATIENCE)
}

/// fio verifies a part of an image by our server.
fn ours_writes(stage: &Stage, image: &str) -> Result<()> {
    let server = Embedded::start_nbd(stage, "-c ceph.conf", &format!("rbd:{image}"))?;
    let line = format!(
        "fio --name=ours --ioengine=nbd --uri={BASE}/{image} --offset=36m --size=20m --rw=randrw --bs=16k --iodepth=8 \
         --io_size=6m --verify=crc32c --verify_fatal=1 --output-format=json --output=ours.json"
    );
    stage.ceph(&line)?;
    fio_without_errors(&fs::read_to_string(stage.path("ours.json"))?)?;
    fs::remove_file(stage.path("ours.json"))?;
    server.stop()
}

/// An image without snapshots, which gets one while it is moved.
fn plain(stage: &Stage) -> Result<()> {
    stage.ceph("rbd import disk.raw rbd/plain")?;
    by(stage, OURS, "migration prepare rbd/plain far/plain")?;
    ours_writes(stage, "far/plain")?;
    stage.ceph("rbd snap create far/plain@one")?;
    model(stage, "far/plain", "@one")?;
    ours_writes(stage, "far/plain")?;
    scribble(stage, "far/plain")?;
    model(stage, "far/plain", "")?;
    seen(stage, "far/plain", &["", "@one"])?;
    by(stage, OURS, "migration execute rbd/plain")?;
    by(stage, OURS, "migration commit far/plain")?;
    seen(stage, "far/plain", &["", "@one"])?;
    checked(stage, "far/plain")?;
    removed(stage, "far/plain")
}

/// What is aborted leaves nothing, no matter which side began it.
fn aborted(stage: &Stage) -> Result<()> {
    stage.ceph("rbd import disk.raw rbd/stays")?;
    stage.ceph("rbd snap create rbd/stays@one")?;
    model(stage, "rbd/stays", "")?;
    model(stage, "rbd/stays", "@one")?;
    for [prepare, abort] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        by(stage, prepare, "migration prepare rbd/stays far/goes")?;
        ensure!(by(stage, OURS, "export rbd/stays seen.raw").is_err(), "the source can be read");
        scribble(stage, "far/goes")?;
        by(stage, abort, "migration abort far/goes")?;
        seen(stage, "rbd/stays", &["", "@one"])?;
        let left = stage.ceph("rbd ls far")?;
        ensure!(!left.contains("goes"), "the destination is there:\n{left}");
    }
    removed(stage, "rbd/stays")
}

/// A clone may be in another pool than its parent without the parent's snapshot being protected.
const V2: &str = "--rbd-default-clone-format 2";
const FLAT_V2: &str = "--flatten --rbd-default-clone-format 2";

/// A clone stays one, or does not.
fn clone(stage: &Stage) -> Result<()> {
    stage.ceph("rbd import other.raw rbd/old")?;
    stage.ceph("rbd snap create rbd/old@base")?;
    for (program, options) in [(OURS, ""), (OURS, "--flatten"), (THEIRS, V2), (THEIRS, FLAT_V2)] {
        stage.ceph("rbd clone --rbd-default-clone-format 2 rbd/old@base rbd/child")?;
        scribble(stage, "rbd/child")?;
        stage.ceph("rbd snap create rbd/child@one")?;
        scribble(stage, "rbd/child")?;
        by(stage, program, &format!("migration prepare {options} rbd/child far/child"))?;
        scribble(stage, "far/child")?;
        ours_writes(stage, "far/child")?;
        model(stage, "far/child", "")?;
        model(stage, "far/child", "@one")?;
        seen(stage, "far/child", &["", "@one"])?;
        by(stage, OURS, "migration execute far/child")?;
        by(stage, OURS, "migration commit far/child")?;
        seen(stage, "far/child", &["", "@one"])?;
        checked(stage, "far/child")?;
        let info = json(&stage.ceph("rbd info --format json far/child")?)?;
        ensure!(info.get("parent").is_none() == options.contains("--flatten"), "after `{options}`: {info}");
        removed(stage, "far/child")?;
        let what = format!("after `{program} migration prepare {options}`");
        let children = stage.ceph("rbd children --all rbd/old@base").with_context(|| what.clone())?;
        ensure!(children.is_empty(), "{what}: {children}");
    }
    removed(stage, "rbd/old")
}

/// Ceph's program moves an image that has clones: from then on they are clones of the destination.
fn parent(stage: &Stage) -> Result<()> {
    for [execute, commit] in [[OURS, THEIRS], [THEIRS, OURS], [OURS, OURS]] {
        stage.ceph("rbd import other.raw rbd/parent")?;
        stage.ceph("rbd snap create rbd/parent@one")?;
        stage.ceph("rbd clone --rbd-default-clone-format 2 rbd/parent@one rbd/kid")?;
        scribble(stage, "rbd/kid")?;
        scribble(stage, "rbd/parent")?;
        model(stage, "rbd/kid", "")?;
        let refused = by(stage, OURS, "migration prepare rbd/parent far/parent");
        ensure!(refused.is_err_and(|error| format!("{error:#}").contains("has clones")), "we moved a parent");
        by(stage, THEIRS, "migration prepare rbd/parent far/parent")?;
        seen(stage, "rbd/kid", &[""]).context("prepared")?;
        ours_writes(stage, "rbd/kid")?;
        scribble(stage, "rbd/kid")?;
        scribble(stage, "far/parent")?;
        model(stage, "rbd/kid", "")?;
        seen(stage, "rbd/kid", &[""]).context("written")?;
        by(stage, execute, "migration execute far/parent")?;
        seen(stage, "rbd/kid", &[""]).context("executed")?;
        // Ceph's program fears for who has the clone open for reading alone, and nobody has.
        let force = if commit == THEIRS { "--force" } else { "" };
        by(stage, commit, &format!("migration commit {force} far/parent"))?;
        seen(stage, "rbd/kid", &[""]).context("committed")?;
        let info = json(&stage.ceph("rbd info --format json rbd/kid")?)?;
        ensure!(info["parent"]["pool"] == "far", "the clone has another parent: {info}");
        by(stage, OURS, "flatten rbd/kid")?;
        seen(stage, "rbd/kid", &[""]).context("flattened")?;
        stage.ceph("rbd rm rbd/kid")?;
        model(stage, "far/parent", "")?;
        model(stage, "far/parent", "@one")?;
        seen(stage, "far/parent", &["", "@one"])?;
        checked(stage, "far/parent")?;
        removed(stage, "far/parent")?;
    }
    Ok(())
}

/// The destination is written by our server while Ceph's program has us execute the migration.
fn in_use(stage: &Stage) -> Result<()> {
    stage.ceph("rbd import disk.raw rbd/busy")?;
    stage.ceph("rbd snap create rbd/busy@one")?;
    model(stage, "rbd/busy", "@one")?;
    stage.onego("--conf ceph.conf cp --in-place other.raw rbd:rbd/busy")?;
    by(stage, THEIRS, "migration prepare rbd/busy far/busy")?;
    let server = Embedded::start_nbd(stage, "-c ceph.conf", "rbd:far/busy")?;
    let fio = format!(
        "fio --name=load --ioengine=nbd --uri={BASE}/far/busy --offset=32m --size=24m --rw=randrw --bs=16k --iodepth=8 \
         --rate_iops=300,300 --verify=crc32c --verify_fatal=1 --loops=12 --output-format=json --output=busy.json"
    );
    let mut load = Daemon::spawn("fio", stage.ceph_daemon(&fio), &stage.path("busy.out"))?;
    let lock = || stage.ceph("rbd lock ls far/busy");
    load.wait_until("its lock", PATIENCE, || lock().is_ok_and(|said| said.contains("auto ")))?;
    let owner = lock()?;
    by(stage, THEIRS, "migration execute far/busy")?;
    let now = lock()?;
    ensure!(now == owner, "another client has the lock:\n{owner}\n{now}");
    load.check_alive()?;
    load.wait()?;
    fio_without_errors(&fs::read_to_string(stage.path("busy.json"))?)?;
    by(stage, OURS, "migration commit far/busy")?;
    server.stop()?;
    seen(stage, "far/busy", &["@one"])?;
    checked(stage, "far/busy")?;
    removed(stage, "far/busy")
}
