//! The embedded cluster at its memory limit, and a pool at its quota.

use crate::steps::{
    each_says, ensure_pool, fio_without_errors, in_background, same_files, says, says_error, wait_until_says,
};
use anyhow::{Result, ensure};
use onego_sandbox::{Daemon, Sandbox, Server, disk, sh};
use std::thread::sleep;
use std::time::Duration;

/// Data that the cluster may hold, and what its process may need besides: code, buffers of connections, maps. Writes
/// wait from 95% on and fail beyond 97%: an object lies between, so that none gets past both at once.
const LIMIT: u64 = 256 << 20;
const BESIDES: u64 = 64 << 20;

/// Time in which something that must not happen would happen.
const WAIT: Duration = Duration::from_secs(2);

const NO_SPACE: &str = "No space left on device";

/// Writes to a full cluster and to a full pool wait, others do not; writes over the limit are refused.
pub(super) fn limit(sandbox: &Sandbox) -> Result<()> {
    let mut cluster = Server::cluster(sandbox, &format!("--memory {}M", LIMIT >> 20))?;
    ensure_pool(sandbox)?;
    sandbox.write("small", disk::Random(3).bytes(8 << 20))?;
    sandbox.write("large", disk::Random(4).bytes(48 << 20))?;

    full(sandbox)?;
    quota(sandbox)?;
    refused(sandbox)?;

    let peak = cluster.daemon().memory().peak()?;
    ensure!(peak < LIMIT + BESIDES, "the process used {} MiB", peak >> 20);
    cluster.daemon().check_alive()
}

/// A full OSD delays writes until there is room, but neither reads nor removals.
fn full(sandbox: &Sandbox) -> Result<()> {
    sandbox.ceph("rados --pool rbd put early small")?;
    sandbox.ceph("rbd import --image-feature layering large rbd/first")?;
    // The first removal of an image creates the trash, which a full cluster could not.
    sandbox.ceph("rbd rm rbd/first")?;
    sandbox.ceph("rbd import --image-feature layering large rbd/theirs")?;
    sandbox.onego("--conf ceph.conf rbd import small rbd/ours")?;
    sandbox.ceph("rbd create --size 8M rbd/fio")?;
    fill(sandbox)?;
    let dump = sandbox.ceph("ceph osd dump")?;
    says(&dump, "exists,full,up")?;
    says(dump.lines().find(|line| line.contains("'rbd'")).unwrap_or_default(), "hashpspool,full,")?;

    let fio = "fio --name=wait --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio --rw=randwrite --bs=64k \
        --size=8m --iodepth=8 --verify=crc32c --verify_fatal=1 --output=fio.json --output-format=json";
    let ours = sandbox.onego_daemon("--conf ceph.conf rbd import small rbd/late");
    let waiting = [
        in_background(sandbox, "rados", "rados --pool rbd put late small")?,
        in_background(sandbox, "fio", fio)?,
        Daemon::spawn("onego", ours, &sandbox.path("onego.out"))?,
    ];
    sleep(WAIT);
    says(&sandbox.read("onego.out")?, "the pool is full")?;
    sandbox.ceph("rados --pool rbd get early back")?;
    same_files(sandbox, "small", "back")?;
    sandbox.onego("--conf ceph.conf rbd export rbd/theirs theirs.raw")?;
    same_files(sandbox, "large", "theirs.raw")?;
    // Without the option `rados rm` waits, too.
    sandbox.ceph("rados --pool rbd rm --force-full early")?;
    sandbox.onego("--conf ceph.conf rbd rm rbd/ours")?;
    let health = sandbox.ceph("ceph health")?;
    ensure!(!health.contains("HEALTH_OK"), "`ceph health` prints {health}");
    sandbox.ceph("rbd rm rbd/theirs")?;
    waiting.into_iter().try_for_each(Daemon::wait)?;
    sandbox.ceph("rados --pool rbd get late back")?;
    sandbox.ceph("rbd export rbd/late late.raw")?;
    ["back", "late.raw"].iter().try_for_each(|name| same_files(sandbox, "small", name))?;
    fio_without_errors(&sandbox.read("fio.json")?)?;
    sandbox.ceph("rados --pool rbd cleanup --prefix benchmark_data")?;
    wait_until_says(sandbox, "ceph health", "HEALTH_OK")
}

/// Writes until the cluster reports that it is full. The writer then waits.
fn fill(sandbox: &Sandbox) -> Result<()> {
    let line = "rados --pool rbd bench 60 write -b 1048576 -t 4 --no-cleanup";
    let mut bench = in_background(sandbox, "bench", line)?;
    wait_until_says(sandbox, "ceph health detail", "pool 'rbd' is full (no space)")?;
    let health = sandbox.ceph("ceph health detail")?;
    says(&health, "HEALTH_ERR")?;
    says(&health, "[ERR] OSD_FULL: 1 full osd(s)\n    osd.0 is full")?;
    sleep(WAIT);
    bench.check_alive()
}

/// A pool that has used up its quota is full, but no other pool; raising the quota ends that.
fn quota(sandbox: &Sandbox) -> Result<()> {
    let is_healthy = || wait_until_says(sandbox, "ceph health", "HEALTH_OK");
    sandbox.ceph("ceph osd pool create bounded 8")?;
    sandbox.ceph("ceph osd pool application enable bounded rados")?;
    sandbox.ceph("ceph osd pool set-quota bounded max_bytes 6M")?;
    let quota = "max bytes  : 6 MiB  (current num bytes: 0 bytes)";
    each_says(sandbox, &[("ceph osd pool get-quota bounded", quota)])?;
    sandbox.ceph("rados --pool bounded put one small")?;
    let full = "pool 'bounded' is full (running out of quota)";
    wait_until_says(sandbox, "ceph health detail", full)?;
    let late = in_background(sandbox, "quota", "rados --pool bounded put two small")?;
    sandbox.ceph("rados --pool rbd put other small")?;
    sandbox.ceph("rados --pool rbd rm other")?;
    sleep(WAIT);
    let listed = sandbox.ceph("rados --pool bounded ls")?;
    ensure!(listed.trim() == "one", "a write to a pool at its quota did not wait: {listed}");
    sandbox.ceph("ceph osd pool set-quota bounded max_bytes 0")?;
    late.wait()?;
    is_healthy()?;

    sandbox.ceph("ceph osd pool set-quota bounded max_objects 2")?;
    each_says(sandbox, &[("ceph osd pool ls detail", "max_objects 2")])?;
    wait_until_says(sandbox, "ceph osd dump", "full_quota")?;
    sandbox.ceph("rados --pool bounded rm --force-full one")?;
    is_healthy()?;
    sandbox.ceph_fails("ceph osd pool set-quota bounded max_bytes many")?;
    sandbox.ceph("rados --pool bounded rm two").map(drop)
}

/// With ratios of 1.0, writes that do not fit fail with ENOSPC, and older data is intact.
fn refused(sandbox: &Sandbox) -> Result<()> {
    for level in ["full", "backfillfull", "nearfull"] {
        sandbox.ceph(&format!("ceph osd set-{level}-ratio 1.0"))?;
    }
    sandbox.ceph("rados --pool rbd put early small")?;
    let full = sandbox.ceph_fails("rados --pool rbd bench 30 write -b 1048576 -t 4 --no-cleanup")?;
    says(&sh::both(&full), NO_SPACE)?;
    says_error(&sandbox.ceph_fails("rados --pool rbd put late small")?, NO_SPACE)?;
    sandbox.ceph("rados --pool rbd get early back")?;
    same_files(sandbox, "small", "back")?;
    sandbox.ceph("rados --pool rbd cleanup --prefix benchmark_data")?;
    sandbox.ceph("rados --pool rbd put late small").map(drop)
}
