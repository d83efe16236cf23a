//! Verified loads on real clusters.

use super::images;
use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Embedded, RealCeph, Stage, Store};
use crate::interop::bench::{Background, no_errors};
use crate::interop::disk;
use crate::interop::steps::{ensure_pool, fio_without_errors, json};
use crate::long;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Reads and writes of several sizes, each read checked against what was written.
pub(crate) fn verified(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    let seconds = if long::is_wanted() { 10 } else { 4 };
    stage.onego(&format!(
        "bench rbd --cluster ceph.conf --rw randrw --block-size 4k --io-depth 32 --size 128M --seconds {seconds} \
         --verify --json rows.json"
    ))?;
    no_errors(&stage.path("rows.json"))
}

/// The same in version 1 of the messenger's protocol: with checksums of payloads, and without.
pub(crate) fn verified_v1(stage: &Stage) -> Result<()> {
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    disk::make(&stage.path("disk.raw"), 1)?;
    let seconds = if long::is_wanted() { 5 } else { 2 };
    for options in ["--messenger v1", "--messenger v1 --no-data-crc"] {
        images::round_trip(stage, |line| {
            stage.onego(&format!("--mon-host v1:{ADDRESS}:6789 {options} {line}"))
        })?;
        let json = stage.path("rows.json");
        stage.onego(&format!(
            "{options} bench rbd --cluster ceph.conf --rw randrw --block-size 4k,256k --io-depth 32 --size 64M \
             --seconds {seconds} --verify --json rows.json"
        ))?;
        no_errors(&json)?;
        fs::remove_file(&json)?;
    }
    Ok(())
}

/// In how many messages a connection is broken, as Ceph's own tests have it, and the image that is written and read as a
/// whole before and after a load: with a connection every few requests that takes its time.
const FAILURES: [(u32, &str); 2] = [(500, "16M"), (50, "2M")];

/// How long each of four loads of ours on a real OSD lasts that breaks connections.
const FAILING_SECONDS: u32 = 3;
const FAILING_SECONDS_LONG: u32 = 150;

/// How long each of two loads of fio lasts that breaks its connections to our OSD. The short form ends by itself.
const FAILING_FIO_LONG: &str = "--time_based --runtime=300";

/// Connections that break every few messages: ours and Ceph's own clients alike must lose nothing.
pub(crate) fn socket_failures(stage: &Stage) -> Result<()> {
    for (every, size) in FAILURES {
        let ceph =
            RealCeph::start_with(stage, Store::Memory, &format!("ms inject socket failures = {every}\n"))?;
        for options in ["--messenger v2", "--messenger v1"] {
            verified_beside_failures(stage, options, size)?;
        }
        says_it_failed(stage, "osd.0.log")?;
        drop(ceph);
        stage.empty()?;
    }
    let _cluster = Embedded::start(stage, "")?;
    ensure_pool(stage)?;
    stage.ceph("rbd create --size 64M rbd/fio")?;
    let conf = fs::read_to_string(stage.path("ceph.conf"))?;
    for (every, _) in FAILURES {
        let failing =
            format!("{conf}[client]\nms inject socket failures = {every}\nlog file = client-{every}.log\n");
        fs::write(stage.path("ceph.conf"), failing)?;
        let line = format!(
            "fio --name=broken --rw=randrw --bs=4k,64k --size=16m --ioengine=rbd --clientname=admin --pool=rbd \
             --rbdname=fio --iodepth=16 --verify=crc32c --verify_fatal=1 --output-format=json --output=fio-{every}.json {}",
            if long::is_wanted() { FAILING_FIO_LONG } else { "" }
        );
        let fio = stage.ceph_daemon(&line);
        Daemon::spawn("fio", fio, &stage.path(&format!("fio-{every}.out")))?.wait()?;
        fio_without_errors(&fs::read_to_string(stage.path(&format!("fio-{every}.json")))?)?;
        says_it_failed(stage, &format!("client-{every}.log"))?;
    }
    Ok(())
}

/// An error if the log of one of Ceph's programs does not tell of failures that it made itself.
fn says_it_failed(stage: &Stage, log: &str) -> Result<()> {
    let said = fs::read(stage.path(log)).with_context(|| format!("cannot read {log}"))?;
    let failures = String::from_utf8_lossy(&said).matches("injecting socket failure").count();
    ensure!(failures > 0, "{log} tells of no failure");
    Ok(())
}

/// Reads and writes at the same time, each read checked.
fn verified_beside_failures(stage: &Stage, options: &str, size: &str) -> Result<()> {
    let json = stage.path("rows.json");
    let seconds = if long::is_wanted() { FAILING_SECONDS_LONG } else { FAILING_SECONDS };
    stage.onego(&format!(
        "{options} bench rbd --cluster ceph.conf --rw randrw --block-size 4k --io-depth 32 --size {size} \
         --seconds {seconds} --verify --json rows.json"
    ))?;
    no_errors(&json)?;
    Ok(fs::remove_file(&json)?)
}

/// The OSD stops in order in the middle of a load and comes back: every write acknowledged is read back.
pub(crate) fn osd_restart(stage: &Stage) -> Result<()> {
    osd_comes_back(stage, Store::Memory)
}

/// The same with an OSD that is killed.
pub(crate) fn osd_crash(stage: &Stage) -> Result<()> {
    osd_comes_back(stage, Store::File)
}

fn osd_comes_back(stage: &Stage, store: Store) -> Result<()> {
    let mut ceph = RealCeph::start(stage, store)?;
    // Most of the time is for the OSD to start twice while the load still runs.
    let (seconds, pauses, gone) = if long::is_wanted() { (25, [4, 3], 2) } else { (18, [2, 1], 1) };
    let mut load = Background::verified_writes(stage, seconds)?;
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
    load.finish(stage)
}

/// Commands that change the CRUSH map of a cluster of Ceph 20: the last makes a rule with multi-step retry.
const CRUSH_CHANGES: [&str; 7] = [
    "ceph osd crush add-bucket elsewhere host",
    "ceph osd crush move elsewhere root=default",
    "ceph osd crush rm-device-class osd.0",
    "ceph osd crush set-device-class ssd osd.0",
    "ceph osd crush rule create-replicated fast default osd ssd",
    "ceph osd crush rm elsewhere",
    "ceph osd pool create retried erasure retry",
];

/// Each incremental map that changes CRUSH gives us the map that the monitors have, while a load runs: none is refused, and so
/// no whole map is asked for.
pub(crate) fn crush_changes(stage: &Stage) -> Result<()> {
    let mut ceph = RealCeph::start(stage, Store::Memory)?;
    stage.ceph("ceph osd set-require-min-compat-client squid --yes-i-really-mean-it")?;
    stage.ceph(
        "ceph osd erasure-code-profile set retry k=2 m=1 crush-failure-domain=host crush-num-failure-domains=3 \
         crush-osds-per-failure-domain=1",
    )?;
    let before = crush_version(stage)?;
    let mut load = Background::verified_writes(stage, if long::is_wanted() { 60 } else { 20 })?;
    for line in CRUSH_CHANGES {
        load.check_running()?;
        stage.ceph(line)?;
    }
    ceph.stop_osd()?;
    ceph.start_osd()?;
    load.check_running()?;
    load.finish(stage)?;
    let changes = crush_version(stage)? - before;
    ensure!(changes >= CRUSH_CHANGES.len() as u64, "only {changes} incremental maps have changed CRUSH");
    let said = fs::read_to_string(stage.path("writes.out"))?;
    ensure!(!said.contains("map"), "our client complains about a map:\n{said}");
    // A client that begins now needs to know such rules.
    for options in ["--messenger v2", "--messenger v1"] {
        stage.onego(&format!("{options} --conf ceph.conf rbd ls rbd"))?;
    }
    Ok(())
}

fn crush_version(stage: &Stage) -> Result<u64> {
    let dump = json(&stage.ceph("ceph osd dump --format json")?)?;
    dump["crush_version"].as_u64().context("the map has no version of CRUSH")
}
