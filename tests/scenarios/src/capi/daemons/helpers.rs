//! Helpers that keep shared state in objects: Ganesha's grace periods and ctdb's recovery lock.

use super::{Library, On, PATIENCE};
use crate::steps::{json, says, wait_until};
use anyhow::{Result, ensure};
use onego_sandbox::sh;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::thread::sleep;
use std::time::Duration;

const GRACE: &str =
    "ganesha-rados-grace --cephconf ceph.conf --userid admin --pool rbd --ns ganesha --oid grace";

/// Commands, and the epochs and servers that are listed after each: N needs a grace period, E enforces one.
const GRACE_STEPS: [(&str, &str); 9] = [
    ("add a b", "cur=1 rec=0 a E b E"),
    ("start a", "cur=2 rec=1 a NE b E"),
    ("noenforce a", "cur=2 rec=1 a N b E"),
    ("enforce a", "cur=2 rec=1 a NE b E"),
    ("join b", "cur=2 rec=1 a NE b NE"),
    ("lift a", "cur=2 rec=1 a E b NE"),
    ("lift b", "cur=2 rec=0 a E b E"),
    ("start b", "cur=3 rec=2 a E b NE"),
    ("remove b", "cur=3 rec=0 a E"),
];

/// Attempts for a line on Ceph's library: the tool exits without closing its handle, on which that library sometimes
/// crashes, possibly before the output is written.
const ATTEMPTS: usize = 10;

/// Starts and ends grace periods, and checks the object.
pub(super) fn ganesha_keeps_grace(on: On<'_>) -> Result<()> {
    refused(on, "dump")?;
    for (line, expected) in GRACE_STEPS {
        done(on, line)?;
        let said = attempted(on, || on.run(&format!("{GRACE} dump")))?;
        let shown: Vec<&str> = said.split_whitespace().filter(|word| !word.starts_with("==")).collect();
        ensure!(shown.join(" ") == expected, "after `{line}`, `dump` prints {said}");
    }
    done(on, "member a")?;
    refused(on, "member b")?;
    let rados = "rados -p rbd --namespace ganesha";
    says(&on.sandbox.ceph(&format!("{rados} listomapvals grace"))?, "value (1 bytes)")?;
    on.sandbox.ceph(&format!("{rados} get grace grace.bin"))?;
    let epochs = fs::read(on.sandbox.path("grace.bin"))?;
    ensure!(epochs == [3_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat(), "the object has {epochs:?}");
    on.sandbox.ceph(&format!("{rados} rm grace")).map(drop)
}

/// Executes a command. A crash of Ceph's library comes after the command is complete.
fn done(on: On<'_>, line: &str) -> Result<()> {
    let output = sh::output(&mut on.sandbox.ceph_command(&on.line(&format!("{GRACE} {line}"))))?;
    let has_crashed = output.status.signal().is_some() || output.status.code().is_some_and(|code| code > 128);
    let is_done = output.status.success() || (on.library == Library::Ceph && has_crashed);
    ensure!(is_done, "`{line}` failed: {}", output.status);
    Ok(())
}

fn refused(on: On<'_>, line: &str) -> Result<()> {
    attempted(on, || on.fails(&format!("{GRACE} {line}"))).map(drop)
}

fn attempted<T>(on: On<'_>, once: impl Fn() -> Result<T>) -> Result<T> {
    match on.library {
        Library::Ceph => (1..ATTEMPTS).find_map(|_| once().ok()).map_or_else(once, Ok),
        Library::Ours => once(),
    }
}

const MUTEX: &str = "/usr/libexec/ctdb/ctdb_mutex_ceph_rados_helper ceph client.admin rbd mutex";

/// Seconds that the lock lasts without renewal: passed in the test, and longer than the test.
const SHORT: u64 = 3;
const LONG: u64 = 600;

/// Output of a helper that has the lock, and of one that finds it taken.
const HELD: &str = "0";
const CONTENDED: &[u8] = b"1";

/// One helper keeps the lock from another, and releases it on SIGTERM and when its parent ends.
pub(super) fn ctdb_locks(on: On<'_>) -> Result<()> {
    let sandbox = on.sandbox;
    let holds_in = |file: &str| sandbox.read(file).is_ok_and(|said| said == HELD);
    let mut holder = on.daemon("mutex", &format!("{MUTEX} {SHORT}"))?;
    holder.wait_until("lock", PATIENCE, || holds_in(&on.output_of("mutex")))?;
    on.has_loaded(&holder)?;
    let other = on.fails(&format!("{MUTEX} {SHORT}"))?;
    ensure!(other.stdout == CONTENDED, "another helper prints {:?}", String::from_utf8_lossy(&other.stdout));
    sleep(Duration::from_secs(SHORT + 1));
    holder.check_alive()?;
    ensure!(holders(on)? == 1, "the lock is not renewed");
    holder.stop()?;
    ensure!(holders(on)? == 0, "the lock is not released");

    // A shell starts the helper and is killed, long before the lock would expire.
    let script = format!("{} > orphan.out &\nwait\n", on.line(&format!("{MUTEX} {LONG}")));
    sandbox.write("parent.sh", script)?;
    let mut parent = on.daemon("parent", "sh parent.sh")?;
    parent.wait_until("lock", PATIENCE, || holds_in("orphan.out"))?;
    ensure!(holders(on)? == 1, "the lock has no holder");
    drop(parent);
    wait_until(sandbox, "release of the lock after its parent's end", PATIENCE, |_| Ok(holders(on)? == 0))?;
    fs::remove_file(sandbox.path("orphan.out"))?;
    sandbox.ceph("rados -p rbd rm mutex").map(drop)
}

fn holders(on: On<'_>) -> Result<usize> {
    let said = json(&on.sandbox.ceph("rados -p rbd lock info mutex ctdb_reclock_mutex")?)?;
    Ok(said["lockers"].as_array().map_or(0, Vec::len))
}
