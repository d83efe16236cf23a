//! Snapshots of a pool, as `rados` makes, reads and removes them, while OSDs come and go and the cluster is killed.

use crate::cluster::{Embedded, Stage};
use crate::interop::steps::{json, says};
use anyhow::{Result, ensure};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long OSDs may take to catch up, and to forget what was removed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Objects; of the last one a snapshot shows what is deleted.
const OBJECTS: usize = 6;

/// What objects are, one after the other; the snapshot of that name keeps each.
const STATES: [&str; 4] = ["first", "second", "third", "fourth"];

fn rados(stage: &Stage, arguments: &str) -> Result<String> {
    stage.ceph(&format!("rados -p things {arguments}"))
}

/// Writes what objects are in one of their states.
fn write(stage: &Stage, state: &str) -> Result<()> {
    fs::write(stage.path("state"), state.repeat(10_000))?;
    (0..OBJECTS).try_for_each(|n| rados(stage, &format!("put object{n} state")).map(drop))
}

/// All snapshots show what they are to show.
fn check(stage: &Stage, states: &[&str]) -> Result<()> {
    for state in states {
        for n in 0..OBJECTS {
            rados(stage, &format!("-s {state} get object{n} seen"))?;
            let seen = fs::read_to_string(stage.path("seen"))?;
            ensure!(seen == state.repeat(10_000), "object{n} at {state} is {seen:.20}...");
        }
    }
    Ok(())
}

fn wait(stage: &Stage, what: &str, is_so: impl Fn(&Stage) -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_so(stage)? {
        ensure!(start.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn wait_until_healthy(stage: &Stage) -> Result<()> {
    wait(stage, "OSDs catch up", |stage| {
        let groups = stage.ceph("ceph pg stat")?;
        Ok(!["recover", "backfill", "degraded", "undersized", "remapped"]
            .iter()
            .any(|state| groups.contains(state)))
    })
}

/// `rados` and `ceph` on snapshots of a pool.
pub(crate) fn of_pools(stage: &Stage) -> Result<()> {
    let start = || Embedded::start(stage, "--data data --osds 3 --pool-size 2");
    let cluster = start()?;
    stage.ceph("ceph osd pool create things 16")?;
    stage.ceph("ceph osd pool set things size 2")?;
    for (osd, state) in STATES.iter().enumerate() {
        // One OSD misses the snapshot, the writes after it, or both.
        stage.ceph(&format!("ceph osd stop {}", osd % 3))?;
        write(stage, state)?;
        rados(stage, &format!("mksnap {state}"))?;
        stage.ceph(&format!("ceph osd start {}", osd % 3))?;
        wait_until_healthy(stage)?;
        check(stage, &STATES[..=osd])?;
    }
    rados(stage, "rm object5")?;
    stage.ceph_fails("rados -p things stat object5")?;
    ensure!(!rados(stage, "ls")?.contains("object5"), "an object that is gone is listed");
    ensure!(rados(stage, "lssnap")?.contains("4 snaps"), "there are four snapshots");
    says(&rados(stage, "listsnaps object0")?, "head")?;
    drop(cluster);

    let cluster = start()?;
    check(stage, &STATES)?;
    rados(stage, "rollback object5 second")?;
    rados(stage, "get object5 seen")?;
    ensure!(fs::read_to_string(stage.path("seen"))?.starts_with("second"), "the object is what it was");
    forgotten(stage)?;
    cluster.stop()?;
    let _cluster = start()?;
    check(stage, &[STATES[1]])?;
    modes(stage)
}

/// What only snapshots show that were removed goes.
fn forgotten(stage: &Stage) -> Result<()> {
    stage.ceph("ceph osd pool rmsnap things first")?;
    rados(stage, "rmsnap third")?;
    rados(stage, "rmsnap fourth")?;
    stage.ceph_fails("rados -p things -s first get object0 seen")?;
    wait(stage, "snapshots are purged", |stage| {
        let dump = json(&stage.ceph("ceph osd dump --format json")?)?;
        Ok(dump["removed_snaps_queue"].as_array().is_some_and(Vec::is_empty))
    })?;
    let df = json(&rados(stage, "df --format json")?)?;
    let pools = df["pools"].as_array().into_iter().flatten();
    let clones =
        pools.into_iter().find(|pool| pool["name"] == "things").map(|pool| pool["num_object_clones"].clone());
    let clones = clones.and_then(|clones| clones.as_str().map_or(clones.as_u64(), |text| text.parse().ok()));
    ensure!(clones == Some(OBJECTS as u64), "a clone of each object is left, not {clones:?}: {df}");
    check(stage, &[STATES[1]])
}

/// A pool has snapshots of its own or of its clients.
fn modes(stage: &Stage) -> Result<()> {
    stage.ceph("rbd pool init rbd")?;
    let refused = stage.ceph_fails("ceph osd pool mksnap rbd no")?;
    says(&String::from_utf8_lossy(&refused.stderr), "selfmanaged snaps mode")?;
    stage.ceph("ceph osd set-require-min-compat-client mimic")?;
    says(&stage.ceph("ceph osd get-require-min-compat-client")?, "mimic")
}
