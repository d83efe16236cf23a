//! Snapshots of a pool, which `rados` makes, reads and removes while OSDs stop and start and the cluster is killed.

use crate::steps::{json, says, says_error, wait_until};
use anyhow::{Result, ensure};
use onego_sandbox::{Sandbox, Server};
use std::time::Duration;

/// Time OSDs get to recover, and to purge snapshots.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of objects. The last one is removed and remains in snapshots.
const OBJECTS: usize = 6;

/// Successive contents of the objects. The snapshot of that name keeps each.
const STATES: [&str; 4] = ["first", "second", "third", "fourth"];

fn rados(sandbox: &Sandbox, arguments: &str) -> Result<String> {
    sandbox.ceph(&format!("rados -p things {arguments}"))
}

fn write(sandbox: &Sandbox, state: &str) -> Result<()> {
    sandbox.write("state", state.repeat(10_000))?;
    (0..OBJECTS).try_for_each(|n| rados(sandbox, &format!("put object{n} state")).map(drop))
}

/// Fails unless each of these snapshots shows its state.
fn check(sandbox: &Sandbox, states: &[&str]) -> Result<()> {
    for state in states {
        for n in 0..OBJECTS {
            rados(sandbox, &format!("-s {state} get object{n} seen"))?;
            let seen = sandbox.read("seen")?;
            ensure!(seen == state.repeat(10_000), "object{n} at {state} is {seen:.20}...");
        }
    }
    Ok(())
}

fn wait_until_recovered(sandbox: &Sandbox) -> Result<()> {
    wait_until(sandbox, "recovery", PATIENCE, |sandbox| {
        let groups = sandbox.ceph("ceph pg stat")?;
        let unfinished = ["recover", "backfill", "degraded", "undersized", "remapped"];
        Ok(!unfinished.iter().any(|state| groups.contains(state)))
    })
}

/// The life of snapshots.
pub(super) fn of_pools(sandbox: &Sandbox) -> Result<()> {
    let start = || Server::cluster(sandbox, "--data data --osds 3 --pool-size 2");
    let cluster = start()?;
    sandbox.ceph("ceph osd pool create things 16")?;
    sandbox.ceph("ceph osd pool set things size 2")?;
    for (osd, state) in STATES.iter().enumerate() {
        // One OSD misses the snapshot, the writes after it, or both.
        sandbox.ceph(&format!("ceph osd stop {}", osd % 3))?;
        write(sandbox, state)?;
        rados(sandbox, &format!("mksnap {state}"))?;
        sandbox.ceph(&format!("ceph osd start {}", osd % 3))?;
        wait_until_recovered(sandbox)?;
        check(sandbox, &STATES[..=osd])?;
    }
    rados(sandbox, "rm object5")?;
    sandbox.ceph_fails("rados -p things stat object5")?;
    ensure!(!rados(sandbox, "ls")?.contains("object5"), "a removed object is listed");
    says(&rados(sandbox, "lssnap")?, "4 snaps")?;
    says(&rados(sandbox, "listsnaps object0")?, "head")?;
    drop(cluster);

    let cluster = start()?;
    check(sandbox, &STATES)?;
    rados(sandbox, "rollback object5 second")?;
    rados(sandbox, "get object5 seen")?;
    ensure!(sandbox.read("seen")?.starts_with("second"), "an object was not rolled back");
    purge(sandbox)?;
    cluster.stop()?;
    let _cluster = start()?;
    check(sandbox, &[STATES[1]])?;

    // A pool has either snapshots of its own or of its clients.
    sandbox.ceph("rbd pool init rbd")?;
    says_error(&sandbox.ceph_fails("ceph osd pool mksnap rbd no")?, "selfmanaged snaps mode")?;
    sandbox.ceph("ceph osd set-require-min-compat-client mimic")?;
    says(&sandbox.ceph("ceph osd get-require-min-compat-client")?, "mimic")
}

/// Data that only removed snapshots refer to is purged.
fn purge(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("ceph osd pool rmsnap things first")?;
    rados(sandbox, "rmsnap third")?;
    rados(sandbox, "rmsnap fourth")?;
    sandbox.ceph_fails("rados -p things -s first get object0 seen")?;
    wait_until(sandbox, "purge of removed snapshots", PATIENCE, |sandbox| {
        let dump = json(&sandbox.ceph("ceph osd dump --format json")?)?;
        Ok(dump["removed_snaps_queue"].as_array().is_some_and(Vec::is_empty))
    })?;
    let df = json(&rados(sandbox, "df --format json")?)?;
    let mut pools = df["pools"].as_array().into_iter().flatten();
    let clones = pools.find(|pool| pool["name"] == "things").map(|pool| &pool["num_object_clones"]);
    // Some releases print numbers as text.
    let clones = clones.and_then(|clones| clones.as_str().map_or(clones.as_u64(), |text| text.parse().ok()));
    ensure!(clones == Some(OBJECTS as u64), "{clones:?} clones are left instead of one an object: {df}");
    check(sandbox, &[STATES[1]])
}
