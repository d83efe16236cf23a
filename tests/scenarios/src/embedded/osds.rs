//! Embedded clusters whose OSDs, or which as a whole, stop and start under the load of clients.

use crate::bench::Background;
use crate::steps::{ensure_pool, fio_without_errors, in_background, json, says, wait_until};
use anyhow::{Result, ensure};
use onego_sandbox::{Daemon, Sandbox, Server, workspace};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time OSDs get to recover, and a client to resume. Ceph's clients retry within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of `rbd bench` that count as progress: it prints one for each second with completed I/O.
const PROGRESS: usize = 2;

/// Stops one OSD after the other and starts it again, during a load of that many seconds.
pub(crate) fn trouble(sandbox: &Sandbox, seconds: u32, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(u64::from(seconds).saturating_sub(5));
    for osd in [0, 1, 2].into_iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        check()?;
        for step in ["stop", "start"] {
            sandbox.onego(&format!("-c ceph.conf cluster osd {step} {osd}"))?;
            sleep(Duration::from_millis(1500));
        }
    }
    check()
}

/// Waits until all data is back in place.
pub(crate) fn wait_until_healthy(sandbox: &Sandbox) -> Result<()> {
    wait_until(sandbox, "HEALTH_OK", PATIENCE, |sandbox| {
        Ok(json(&sandbox.ceph("ceph -s --format json")?)?["health"]["status"] == "HEALTH_OK")
    })
}

/// Our client and then fio through librbd write and verify while OSDs stop and start.
pub(super) fn come_and_go(sandbox: &Sandbox) -> Result<()> {
    let seconds = if workspace::is_long() { 300 } else { 15 };
    ensure_pool(sandbox)?;
    sandbox.ceph("ceph osd pool set rbd size 2")?;
    let tree = sandbox.ceph("ceph osd tree")?;
    (0..3).try_for_each(|osd| says(&tree, &format!("osd.{osd}")))?;

    let mut load = Background::verified_writes(sandbox, seconds)?;
    trouble(sandbox, seconds, || load.check_running())?;
    load.finish(sandbox)?;
    wait_until_healthy(sandbox)?;

    sandbox.ceph("rbd create --size 64M rbd/fio")?;
    let line = format!(
        "fio --name=load --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio --rw=randrw --bs=4k --size=64m \
         --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=1024 --time_based --runtime={seconds} \
         --output=fio.json --output-format=json"
    );
    let mut fio = in_background(sandbox, "fio", &line)?;
    trouble(sandbox, seconds, || fio.check_alive())?;
    fio.wait()?;
    fio_without_errors(&sandbox.read("fio.json")?)?;
    wait_until_healthy(sandbox)
}

/// `ceph` on OSDs that are down, out and in.
pub(super) fn tools(sandbox: &Sandbox) -> Result<()> {
    ensure_pool(sandbox)?;
    sandbox.ceph("rados -p rbd put object ceph.conf")?;
    says(&sandbox.ceph("ceph osd pool get rbd size")?, "size: 3\n")?;
    let status_says = |parts: &[&str]| {
        let status = sandbox.ceph("ceph -s")?;
        parts.iter().try_for_each(|part| says(&status, part))
    };
    sandbox.ceph("ceph osd stop 1")?;
    status_says(&["3 osds: 2 up", "1 osds down", "degraded"])?;
    sandbox.ceph("ceph osd out 1")?;
    let tree = sandbox.ceph("ceph osd tree")?;
    let line = tree.lines().find(|line| line.contains("osd.1")).unwrap_or_default();
    ensure!(line.contains("down") && line.contains(" 0 "), "`ceph osd tree` prints {tree}");
    sandbox.ceph("ceph osd in 1")?;
    sandbox.ceph("rados -p rbd put held ceph.conf")?;
    sandbox.ceph("ceph osd set norecover")?;
    sandbox.ceph("ceph osd start 1")?;
    sleep(Duration::from_secs(2));
    status_says(&["3 up", "norecover flag(s) set", "degraded"])?;
    sandbox.ceph("ceph osd unset norecover")?;
    wait_until_healthy(sandbox)?;
    sandbox.ceph("ceph osd down 2")?;
    wait_until_healthy(sandbox)?;
    says(&sandbox.ceph("ceph pg stat")?, "active+clean")?;
    sandbox.ceph("rados -p rbd get object got")?;
    ensure!(sandbox.read("got")? == sandbox.read("ceph.conf")?, "an object has changed");
    Ok(())
}

/// librbd continues after the cluster was stopped or killed and started again, and the cluster's log is complete.
pub(super) fn restart(sandbox: &Sandbox) -> Result<()> {
    let start = || Server::cluster(sandbox, "--data data --osds 3 --pool-size 2");
    let mut cluster = start()?;
    ensure_pool(sandbox)?;
    sandbox.ceph("rbd create --size 64M rbd/disk")?;
    let log = sandbox.path("bench.out");
    // Its lines are not buffered. It cannot write all of that and ends with the sandbox.
    let line = "stdbuf -oL rbd bench --io-type write --io-pattern rand --io-size 4K --io-threads 16 --io-total 1T rbd/disk";
    let mut bench = in_background(sandbox, "bench", line)?;
    wait_for_progress(&mut bench, &log)?;
    let ends: [fn(Server) -> Result<()>; 4] = [Server::stop, crash, crash, Server::stop];
    for (life, end) in ends.into_iter().enumerate() {
        // Acknowledged messages survive a crash, too.
        sandbox.ceph(&format!("ceph log said-in-life-{life}"))?;
        end(cluster)?;
        cluster = start()?;
        let last = sandbox.ceph("ceph log last 1000")?;
        for said in (0..=life).map(|life| format!("said-in-life-{life}")) {
            let count = last.lines().filter(|line| line.ends_with(&said)).count();
            ensure!(count == 1, "the cluster's log has {said} {count} times:\n{last}");
        }
        wait_for_progress(&mut bench, &log)?;
    }
    Ok(())
}

fn crash(cluster: Server) -> Result<()> {
    drop(cluster);
    Ok(())
}

/// Waits for more lines of `rbd bench` with its speed. Errors have lines, too.
fn wait_for_progress(bench: &mut Daemon, log: &Path) -> Result<()> {
    let is_progress = |line: &&str| line.ends_with("B/s");
    let lines = || fs::read_to_string(log).map_or(0, |said| said.lines().filter(is_progress).count());
    let before = lines();
    bench.wait_until("progress", PATIENCE, || lines() >= before + PROGRESS)
}
