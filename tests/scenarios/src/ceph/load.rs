//! Verified loads on real clusters.

use super::{each_step, round_trip, run_step, script, verified_load};
use crate::bench::Background;
use crate::steps::{ensure_pool, fio_without_errors, json};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::workspace::is_long;
use onego_sandbox::{ADDRESS, Daemon, RealCeph, Sandbox, Server, Store, disk};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

pub(super) fn verified(sandbox: &Sandbox) -> Result<()> {
    let seconds = if is_long() { 10 } else { 4 };
    verified_load(sandbox, "", &format!("--block-size 4k --io-depth 32 --size 128M --seconds {seconds}"))
}

/// Uses protocol version 1, with checksums of payloads and without.
pub(super) fn verified_v1(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("disk.raw"), 1)?;
    let seconds = if is_long() { 5 } else { 2 };
    for options in ["--messenger v1", "--messenger v1 --no-data-crc"] {
        round_trip(sandbox, &format!("--mon-host v1:{ADDRESS}:6789 {options}"))?;
        let load = format!("--block-size 4k,256k --io-depth 32 --size 64M --seconds {seconds}");
        verified_load(sandbox, options, &load)?;
    }
    Ok(())
}

/// Messages from one broken connection to the next, as in Ceph's own tests, and the size of the image: the load writes
/// and reads it whole, which is slow with a new connection every few requests.
const FAILURES: [(u32, &str); 2] = [(500, "16M"), (50, "2M")];

/// Runs our loads on a real OSD that breaks connections, and fio on our cluster with a librbd that does.
pub(super) fn socket_failures(sandbox: &Sandbox) -> Result<()> {
    let seconds = if is_long() { 150 } else { 3 };
    for (interval, size) in FAILURES {
        let ceph = RealCeph::start_with(
            sandbox,
            Store::Memory,
            &format!("ms inject socket failures = {interval}\n"),
        )?;
        for options in ["--messenger v2", "--messenger v1"] {
            let load = format!("--block-size 4k --io-depth 32 --size {size} --seconds {seconds}");
            verified_load(sandbox, options, &load)?;
        }
        check_failures(sandbox, "osd.0.log")?;
        drop(ceph);
        sandbox.empty()?;
    }
    let _cluster = Server::cluster(sandbox, "")?;
    ensure_pool(sandbox)?;
    sandbox.ceph("rbd create --size 64M rbd/fio")?;
    let conf = sandbox.read("ceph.conf")?;
    for (interval, _) in FAILURES {
        let client =
            format!("[client]\nms inject socket failures = {interval}\nlog file = client-{interval}.log\n");
        sandbox.write("ceph.conf", format!("{conf}{client}"))?;
        let line = format!(
            "fio --name=broken --rw=randrw --bs=4k,64k --size=16m --ioengine=rbd --clientname=admin --pool=rbd \
             --rbdname=fio --iodepth=16 --verify=crc32c --verify_fatal=1 --output-format=json --output=fio.json {}",
            if is_long() { "--time_based --runtime=300" } else { "" }
        );
        Daemon::spawn("fio", sandbox.ceph_daemon(&line), &sandbox.path("fio.out"))?.wait()?;
        fio_without_errors(&sandbox.read("fio.json")?)?;
        check_failures(sandbox, &format!("client-{interval}.log"))?;
    }
    Ok(())
}

/// Checks that one of Ceph's programs logged failures that it injected.
fn check_failures(sandbox: &Sandbox, log: &str) -> Result<()> {
    let said = fs::read(sandbox.path(log)).with_context(|| format!("cannot read {log}"))?;
    let is_failing = String::from_utf8_lossy(&said).contains("injecting socket failure");
    ensure!(is_failing, "{log} has no injected failures");
    Ok(())
}

pub(super) fn osd_restart(sandbox: &Sandbox) -> Result<()> {
    osd_comes_back(sandbox, Store::Memory)
}

pub(super) fn osd_crash(sandbox: &Sandbox) -> Result<()> {
    osd_comes_back(sandbox, Store::File)
}

/// Stops or kills the OSD twice under a load that verifies each acknowledged write.
fn osd_comes_back(sandbox: &Sandbox, store: Store) -> Result<()> {
    let mut ceph = RealCeph::start(sandbox, store)?;
    // Most of the time is for the OSD to start twice during the load.
    let (seconds, pauses, gone) = if is_long() { (25, [4, 3], 2) } else { (18, [2, 1], 1) };
    let mut load = Background::verified_writes(sandbox, seconds)?;
    for pause in pauses {
        sleep(Duration::from_secs(pause));
        load.check_running()?;
        match store {
            Store::Memory => ceph.stop_osd()?,
            Store::File => ceph.kill_osd()?,
        }
        sleep(Duration::from_secs(gone));
        ceph.start_osd()?;
    }
    load.check_running()?;
    load.finish(sandbox)
}

/// Commands of Ceph 20 that change the CRUSH map; the last creates a rule with multi-step retry.
const CRUSH_CHANGES: &str =
    "ceph osd crush add-bucket elsewhere host; ceph osd crush move elsewhere root=default
ceph osd crush rm-device-class osd.0; ceph osd crush set-device-class ssd osd.0
ceph osd crush rule create-replicated fast default osd ssd; ceph osd crush rm elsewhere
ceph osd pool create retried erasure retry";

/// Checks that our client accepts each incremental map, and so never asks for a full one.
pub(super) fn crush_changes(sandbox: &Sandbox) -> Result<()> {
    let mut ceph = RealCeph::start(sandbox, Store::Memory)?;
    sandbox.ceph("ceph osd set-require-min-compat-client squid --yes-i-really-mean-it")?;
    sandbox.ceph(
        "ceph osd erasure-code-profile set retry k=2 m=1 crush-failure-domain=host crush-num-failure-domains=3 \
         crush-osds-per-failure-domain=1",
    )?;
    let before = crush_version(sandbox)?;
    let mut load = Background::verified_writes(sandbox, if is_long() { 60 } else { 20 })?;
    let mut count = 0;
    each_step(CRUSH_CHANGES, |line| {
        load.check_running()?;
        count += 1;
        run_step(sandbox, line)
    })?;
    ceph.stop_osd()?;
    ceph.start_osd()?;
    load.check_running()?;
    load.finish(sandbox)?;
    let changes = crush_version(sandbox)? - before;
    ensure!(changes >= count, "only {changes} incremental maps have changed CRUSH");
    let said = sandbox.read("writes.out")?;
    ensure!(!said.contains("map"), "our client complains about a map:\n{said}");
    // A new client reads the rules from a full map.
    script(sandbox, "onego --messenger v2 rbd ls rbd; onego --messenger v1 rbd ls rbd")
}

fn crush_version(sandbox: &Sandbox) -> Result<u64> {
    let dump = json(&sandbox.ceph("ceph osd dump --format json")?)?;
    dump["crush_version"].as_u64().context("the map has no version of CRUSH")
}
