//! ctdb's helper that holds the recovery lock of a cluster of Samba's servers.

use super::on_library::{PATIENCE, Run};
use crate::interop::steps::json;
use anyhow::{Result, ensure};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const HELPER: &str = "/usr/libexec/ctdb/ctdb_mutex_ceph_rados_helper ceph client.admin rbd mutex";

/// How long the lock is good for without being renewed, in seconds: a short time that passes in the test, and a long one.
const SHORT: u32 = 3;
const LONG: u32 = 600;

/// What it prints when it has the lock, and when another one has it.
const HELD: &str = "0";
const CONTENDED: &[u8] = b"1";

/// One has the lock, keeps it, and another does not get it; it gives it back when it is asked to end, and when its parent has.
pub(super) fn locks(run: Run<'_>) -> Result<()> {
    let stage = run.stage;
    let mut holder = run.daemon("mutex", &format!("{HELPER} {SHORT}"))?;
    let log = stage.path(&format!("mutex.{:?}.out", run.on));
    holder.wait_until("the lock", PATIENCE, || fs::read_to_string(&log).is_ok_and(|said| said == HELD))?;
    run.has_loaded(&holder)?;
    let other = run.fails(&format!("{HELPER} {SHORT}"))?;
    ensure!(other.stdout == CONTENDED, "another one says {:?}", String::from_utf8_lossy(&other.stdout));
    sleep(Duration::from_secs(u64::from(SHORT) + 1));
    holder.check_alive()?;
    ensure!(holders(run)? == 1, "the lock is not renewed");
    holder.stop()?;
    ensure!(holders(run)? == 0, "the lock is not given back");

    // A shell that starts it and is killed. With this lease the lock would not run out by itself.
    let script =
        format!("{} > orphan.out &\necho $! > orphan\nwait\n", run.line(&format!("{HELPER} {LONG}")));
    fs::write(stage.path("parent.sh"), script)?;
    let mut parent = run.daemon("parent", "sh parent.sh")?;
    let said = stage.path("orphan.out");
    parent.wait_until("the lock", PATIENCE, || fs::read_to_string(&said).is_ok_and(|said| said == HELD))?;
    ensure!(holders(run)? == 1, "nobody has the lock");
    drop(parent);
    let start = Instant::now();
    while holders(run)? > 0 {
        ensure!(start.elapsed() < PATIENCE, "it does not end with its parent");
        sleep(Duration::from_millis(200));
    }
    fs::remove_file(said)?;
    stage.ceph("rados -p rbd rm mutex").map(drop)
}

/// How many have the lock.
fn holders(run: Run<'_>) -> Result<usize> {
    let said = json(&run.stage.ceph("rados -p rbd lock info mutex ctdb_reclock_mutex")?)?;
    Ok(said["lockers"].as_array().map_or(0, Vec::len))
}
