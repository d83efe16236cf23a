//! The embedded cluster at the limit of its memory, and a pool at its quota.

use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::{ensure_pool, fio_without_errors, says};
use crate::sh;
use anyhow::{Result, ensure};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Data that the cluster may hold, and what its process may need beside: code, buffers of connections, maps. Writes wait from
/// 95 % of it on, and fail that would go beyond 97 %: one object lies between, so that none gets from below to beyond at once.
const LIMIT: u64 = 256 << 20;
const BESIDE: u64 = 64 << 20;

/// How long something may take that happens within two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long what must not happen is given to happen.
const WAIT: Duration = Duration::from_secs(2);

/// Writes to a full cluster and to a full pool wait, others go on; over the limit they are refused.
pub(crate) fn limit(stage: &Stage) -> Result<()> {
    let mut cluster = Embedded::start(stage, &format!("--memory {}M", LIMIT >> 20))?;
    ensure_pool(stage)?;
    fs::write(stage.path("small"), disk::Random(3).bytes(8 << 20))?;
    fs::write(stage.path("large"), disk::Random(4).bytes(48 << 20))?;

    full(stage)?;
    quota(stage)?;
    refused(stage)?;

    let peak = cluster.server().peak_memory()?;
    ensure!(peak < LIMIT + BESIDE, "the process used {} MiB", peak >> 20);
    cluster.server().check_alive()
}

/// The OSD is full: what needs room waits, reads and removals do not, and what waited is done once there is room.
fn full(stage: &Stage) -> Result<()> {
    stage.ceph("rados --pool rbd put early small")?;
    for image in ["first", "theirs"] {
        stage.ceph(&format!("rbd import --image-feature layering large rbd/{image}"))?;
        // The trash comes to be with the first image that is removed, and could not while all is full.
        if image == "first" {
            stage.ceph("rbd rm rbd/first")?;
        }
    }
    stage.onego("--conf ceph.conf rbd import small rbd/ours")?;
    stage.ceph("rbd create --size 8M rbd/fio")?;
    fill(stage)?;
    let dump = stage.ceph("ceph osd dump")?;
    says(&dump, "exists,full,up")?;
    let pool = dump.lines().find(|line| line.contains("'rbd'")).unwrap_or_default();
    says(pool, "hashpspool,full,")?;

    let waiting = [
        in_background(stage, "rados", &stage.path("rados.out"), "rados --pool rbd put late small")?,
        in_background(
            stage,
            "fio",
            &stage.path("fio.out"),
            "fio --name=wait --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio --rw=randwrite --bs=64k \
             --size=8m --iodepth=8 --verify=crc32c --verify_fatal=1 --output=fio.json --output-format=json",
        )?,
        Daemon::spawn(
            "onego",
            stage.onego_daemon("--conf ceph.conf rbd import small rbd/late"),
            &stage.path("onego.out"),
        )?,
    ];
    sleep(WAIT);
    says(&fs::read_to_string(stage.path("onego.out"))?, "the pool is full")?;
    stage.ceph("rados --pool rbd get early back")?;
    disk::compare(&stage.path("small"), &stage.path("back"))?;
    stage.onego("--conf ceph.conf rbd export rbd/theirs theirs.raw")?;
    disk::compare(&stage.path("large"), &stage.path("theirs.raw"))?;
    // `rados rm` waits, too, unless it is told not to.
    stage.ceph("rados --pool rbd rm --force-full early")?;
    stage.onego("--conf ceph.conf rbd rm rbd/ours")?;
    let health = stage.ceph("ceph health")?;
    ensure!(!health.contains("HEALTH_OK"), "`ceph health` says {health}");
    stage.ceph("rbd rm rbd/theirs")?;
    for daemon in waiting {
        daemon.wait()?;
    }
    stage.ceph("rados --pool rbd get late back")?;
    disk::compare(&stage.path("small"), &stage.path("back"))?;
    stage.ceph("rbd export rbd/late late.raw")?;
    disk::compare(&stage.path("small"), &stage.path("late.raw"))?;
    fio_without_errors(&fs::read_to_string(stage.path("fio.json"))?)?;
    stage.ceph("rados --pool rbd cleanup --prefix benchmark_data")?;
    wait_until(stage, "ceph health", "HEALTH_OK")
}

/// Writes until the cluster says that it is full.
fn fill(stage: &Stage) -> Result<()> {
    let line = "rados --pool rbd bench 60 write -b 1048576 -t 4 --no-cleanup";
    let mut bench = in_background(stage, "rados bench", &stage.path("bench.out"), line)?;
    wait_until(stage, "ceph health detail", "pool 'rbd' is full (no space)")?;
    let health = stage.ceph("ceph health detail")?;
    says(&health, "HEALTH_ERR")?;
    says(&health, "[ERR] OSD_FULL: 1 full osd(s)\n    osd.0 is full")?;
    sleep(WAIT);
    bench.check_alive()
}

/// A pool that has used up its quota is full, and no other; it is not when the quota is raised.
fn quota(stage: &Stage) -> Result<()> {
    stage.ceph("ceph osd pool create bounded 8")?;
    stage.ceph("ceph osd pool application enable bounded rados")?;
    stage.ceph("ceph osd pool set-quota bounded max_bytes 6M")?;
    says(
        &stage.ceph("ceph osd pool get-quota bounded")?,
        "max bytes  : 6 MiB  (current num bytes: 0 bytes)",
    )?;
    stage.ceph("rados --pool bounded put one small")?;
    wait_until(stage, "ceph health detail", "pool 'bounded' is full (running out of quota)")?;
    let late = in_background(stage, "rados", &stage.path("quota.out"), "rados --pool bounded put two small")?;
    stage.ceph("rados --pool rbd put other small")?;
    stage.ceph("rados --pool rbd rm other")?;
    sleep(WAIT);
    ensure!(
        stage.ceph("rados --pool bounded ls")?.trim() == "one",
        "a write to a pool at its quota did not wait"
    );
    stage.ceph("ceph osd pool set-quota bounded max_bytes 0")?;
    late.wait()?;
    wait_until(stage, "ceph health", "HEALTH_OK")?;

    stage.ceph("ceph osd pool set-quota bounded max_objects 2")?;
    says(&stage.ceph("ceph osd pool ls detail")?, "max_objects 2")?;
    wait_until(stage, "ceph osd dump", "full_quota")?;
    stage.ceph("rados --pool bounded rm --force-full one")?;
    wait_until(stage, "ceph health", "HEALTH_OK")?;
    stage.ceph_fails("ceph osd pool set-quota bounded max_bytes many")?;
    stage.ceph("rados --pool bounded rm two").map(drop)
}

/// Where nobody counts as full, what does not fit is refused with ENOSPC, and what was there before is whole.
fn refused(stage: &Stage) -> Result<()> {
    for level in ["full", "backfillfull", "nearfull"] {
        stage.ceph(&format!("ceph osd set-{level}-ratio 1.0"))?;
    }
    stage.ceph("rados --pool rbd put early small")?;
    let full = stage.ceph_fails("rados --pool rbd bench 30 write -b 1048576 -t 4 --no-cleanup")?;
    says(&String::from_utf8_lossy(&[full.stdout, full.stderr].concat()), "No space left on device")?;
    let refused = stage.ceph_fails("rados --pool rbd put late small")?;
    says(&String::from_utf8_lossy(&refused.stderr), "No space left on device")?;
    stage.ceph("rados --pool rbd get early back")?;
    disk::compare(&stage.path("small"), &stage.path("back"))?;
    stage.ceph("rados --pool rbd cleanup --prefix benchmark_data")?;
    stage.ceph("rados --pool rbd put late small").map(drop)
}

fn in_background(stage: &Stage, name: &str, log: &std::path::Path, line: &str) -> Result<Daemon> {
    Daemon::spawn(name, stage.ceph_daemon(line), log)
}

/// Waits until a program says something.
fn wait_until(stage: &Stage, line: &str, expected: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        let said = stage.ceph(line)?;
        if said.contains(expected) {
            return Ok(());
        }
        ensure!(
            start.elapsed() < PATIENCE,
            "`{line}` does not come to say `{expected}`: {}",
            sh::tail(said.as_bytes())
        );
        sleep(Duration::from_millis(200));
    }
}
