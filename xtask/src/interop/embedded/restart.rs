//! An embedded cluster that keeps its state ends and starts again under the load of Ceph's clients.

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, Stage};
use crate::interop::steps::ensure_pool;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long a client may take until it does something again. Ceph's try again within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines that `rbd bench` writes until it is said to make progress: one for each second in which something was done.
const PROGRESS: usize = 2;

/// How a cluster ends.
#[derive(Clone, Copy)]
enum Ending {
    Stopped,
    Killed,
}

/// librbd goes on where it was, whether the cluster was stopped or killed, and the cluster's log has what was said before.
pub(crate) fn under_load(stage: &Stage) -> Result<()> {
    let start = || Embedded::start(stage, "--data data --osds 3 --pool-size 2");
    let mut cluster = start()?;
    ensure_pool(stage)?;
    stage.ceph("rbd create --size 64M rbd/disk")?;
    let log = stage.path("bench.out");
    // It writes each line at once. There is more than it can do: it ends with the stage.
    let line = "stdbuf -oL rbd bench --io-type write --io-pattern rand --io-size 4K --io-threads 16 --io-total 1T rbd/disk";
    let mut bench = Daemon::spawn("rbd bench", stage.ceph_daemon(line), &log)?;
    wait_for_progress(&mut bench, &log)?;
    for (life, end) in
        [Ending::Stopped, Ending::Killed, Ending::Killed, Ending::Stopped].into_iter().enumerate()
    {
        // Whether it is killed or not: what was acknowledged is kept.
        stage.ceph(&format!("ceph log said-in-life-{life}"))?;
        match end {
            Ending::Stopped => cluster.stop()?,
            Ending::Killed => drop(cluster),
        }
        cluster = start()?;
        check_log(stage, life)?;
        wait_for_progress(&mut bench, &log)?;
    }
    Ok(())
}

/// The cluster's log has what was said in each life up to this one, once.
fn check_log(stage: &Stage, life: usize) -> Result<()> {
    let last = stage.ceph("ceph log last 1000")?;
    for said in (0..=life).map(|life| format!("said-in-life-{life}")) {
        let count = last.lines().filter(|line| line.ends_with(&said)).count();
        ensure!(count == 1, "the cluster's log has {said} {count} times:\n{last}");
    }
    Ok(())
}

/// Waits until `rbd bench` has written some lines more that say how fast it is: it also says what has failed.
fn wait_for_progress(bench: &mut Daemon, log: &Path) -> Result<()> {
    let is_progress = |line: &&str| line.ends_with("B/s");
    let lines = || fs::read_to_string(log).map_or(0, |said| said.lines().filter(is_progress).count());
    let before = lines();
    bench.wait_until("progress", PATIENCE, || lines() >= before + PROGRESS)
}
