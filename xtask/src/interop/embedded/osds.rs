//! An embedded cluster of several OSDs, of which one is always being stopped or catching up, under verified loads.

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, Stage};
use crate::interop::bench::Background;
use crate::interop::steps::{ensure_pool, fio_without_errors};
use crate::long;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long each load lasts.
const SECONDS: u32 = 15;
const SECONDS_LONG: u32 = 300;

/// How long OSDs may take to catch up once they are left alone.
const PATIENCE: Duration = Duration::from_secs(60);

fn seconds() -> u32 {
    if long::is_wanted() { SECONDS_LONG } else { SECONDS }
}

/// Stops one OSD after the other and starts it again, for as long as a load lasts.
pub(crate) fn trouble(stage: &Stage, seconds: u32, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(u64::from(seconds).saturating_sub(5));
    for osd in [0, 1, 2].into_iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        check()?;
        stage.onego(&format!("-c ceph.conf cluster osd stop {osd}"))?;
        sleep(Duration::from_millis(1500));
        stage.onego(&format!("-c ceph.conf cluster osd start {osd}"))?;
        sleep(Duration::from_millis(1500));
    }
    check()
}

/// Waits until everything is where it belongs again.
pub(crate) fn wait_until_healthy(stage: &Stage) -> Result<()> {
    let start = Instant::now();
    loop {
        let status: Value = serde_json::from_str(&stage.ceph("ceph -s --format json")?)?;
        if status["health"]["status"] == "HEALTH_OK" {
            return Ok(());
        }
        ensure!(start.elapsed() < PATIENCE, "the OSDs do not catch up: {status}");
        sleep(Duration::from_millis(200));
    }
}

/// Our client, then fio through librbd, write and verify while OSDs go and come back.
pub(crate) fn come_and_go(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--osds 3 --pool-size 2")?;
    ensure_pool(stage)?;
    let tree = stage.ceph("ceph osd tree")?;
    ensure!((0..3).all(|osd| tree.contains(&format!("osd.{osd}"))), "`ceph osd tree` says {tree}");

    let mut load = Background::verified_writes(stage, seconds())?;
    trouble(stage, seconds(), || load.check_running())?;
    load.finish(stage)?;
    wait_until_healthy(stage)?;

    stage.ceph("rbd create --size 64M rbd/fio")?;
    let line = format!(
        "fio --name=load --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio --rw=randrw --bs=4k --size=64m \
         --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_backlog=1024 --time_based --runtime={} \
         --output=fio.json --output-format=json",
        seconds()
    );
    let mut fio = Daemon::spawn("fio", stage.ceph_daemon(&line), &stage.path("fio.out"))?;
    trouble(stage, seconds(), || fio.check_alive())?;
    fio.wait()?;
    fio_without_errors(&fs::read_to_string(stage.path("fio.json"))?)?;
    wait_until_healthy(stage)
}

/// What users of `ceph` see of OSDs that are down, out and in.
pub(crate) fn tools(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "--osds 3")?;
    ensure_pool(stage)?;
    stage.ceph("rados -p rbd put object ceph.conf")?;
    let size = stage.ceph("ceph osd pool get rbd size")?;
    ensure!(size.trim() == "size: 3", "`ceph osd pool get` says {size}");
    stage.ceph("ceph osd stop 1")?;
    let status = stage.ceph("ceph -s")?;
    ensure!(status.contains("3 osds: 2 up") && status.contains("1 osds down"), "`ceph -s` says {status}");
    ensure!(status.contains("degraded"), "`ceph -s` says {status}");
    stage.ceph("ceph osd out 1")?;
    let tree = stage.ceph("ceph osd tree")?;
    let line = tree.lines().find(|line| line.contains("osd.1")).unwrap_or_default();
    ensure!(line.contains("down") && line.contains(" 0 "), "`ceph osd tree` says {tree}");
    stage.ceph("ceph osd in 1")?;
    stage.ceph("rados -p rbd put held ceph.conf")?;
    stage.ceph("ceph osd set norecover")?;
    stage.ceph("ceph osd start 1")?;
    sleep(Duration::from_secs(2));
    let status = stage.ceph("ceph -s")?;
    let held = ["3 up", "norecover flag(s) set", "degraded"];
    ensure!(held.iter().all(|part| status.contains(part)), "`ceph -s` says {status}");
    stage.ceph("ceph osd unset norecover")?;
    wait_until_healthy(stage)?;
    stage.ceph("ceph osd down 2")?;
    wait_until_healthy(stage)?;
    let pgs = stage.ceph("ceph pg stat")?;
    ensure!(pgs.contains("active+clean"), "`ceph pg stat` says {pgs}");
    stage.ceph("rados -p rbd get object got")?;
    ensure!(fs::read(stage.path("got"))? == fs::read(stage.path("ceph.conf"))?, "the object has changed");
    Ok(())
}
