//! Upstream's own test programs, from Debian's package `ceph-test`, on our embedded cluster.
//!
//! Source: ceph `src/test/librados`, `src/test/librbd`, `src/test/cls_*`, `src/test/osd/TestRados.cc`.

use crate::upstream::{Outcomes, judge, listed};
use anyhow::{Result, ensure};
use onego_sandbox::{Sandbox, Server, root, sh};
use std::path::PathBuf;
use std::time::Duration;

/// Programs that take seconds, with the least number of tests that pass.
const QUICK: &[(&str, usize)] = &[
    ("cls_lock", 11),
    ("cls_numops", 4),
    ("rados_api_aio", 26),
    ("rados_api_c_read_operations", 17),
    ("rados_api_c_write_operations", 8),
    ("rados_api_io", 14),
    ("rados_api_list", 8),
    ("rados_api_misc", 12),
    ("rados_api_snapshots", 7),
    ("rados_api_stat", 5),
];

/// The other programs.
const OTHERS: &[(&str, usize)] = &[
    ("cls_cas", 6),
    ("cls_cmpomap", 31),
    ("cls_hello", 6),
    ("cls_log", 4),
    ("cls_queue", 15),
    ("cls_rbd", 66),
    ("cls_refcount", 5),
    ("rados_api_aio_pp", 37),
    ("rados_api_asio", 12),
    ("rados_api_cmd", 4),
    ("rados_api_cmd_pp", 3),
    ("rados_api_io_pp", 20),
    ("rados_api_lock", 8),
    ("rados_api_lock_pp", 8),
    ("rados_api_misc_pp", 28),
    ("rados_api_pool", 8),
    ("rados_api_service", 4),
    ("rados_api_service_pp", 4),
    ("rados_api_snapshots_pp", 13),
    ("rados_api_stat_pp", 5),
    ("rados_api_watch_notify", 10),
    ("rados_api_watch_notify_pp", 13),
    ("librbd", 150),
];

/// Tests that fail with those of 18.2, as [`listed`] reads them.
const FAILURES: &str = include_str!("ceph_test_18.txt");

/// Tests that are not run: without erasure-coded pools and cache tiers, programs crash instead of failing; tests of
/// encryption derive keys for minutes; mirroring takes its daemon; consumers of a queue without a lock race for markers, of
/// which the class refuses old ones.
const FILTER: &str =
    "--gtest_filter=-*EC*:*_ec:*TwoPools*:*Tier*:*Encrypt*:*LUKS*:TestMirroring*:*NoLockMultiConsumer*";

/// Time a program gets on a busy machine. That for librbd takes five minutes on an idle one.
const PATIENCE: Duration = Duration::from_secs(1200);

/// Operations of the model, which change objects, take snapshots and return to them, with their weights.
const MODEL: &str = "--op read 100 --op write 100 --op delete 50 --op append 50 --op snap_create 50 \
    --op snap_remove 50 --op rollback 50 --op setattr 25 --op rmattr 25";

/// Sizes of the model's objects and writes.
const MODEL_SIZES: &str = "--objects 50 --max-in-flight 16 --size 400000 --min-stride-size 1000 \
    --max-stride-size 40000 --max-seconds 300";

/// Runs the quick programs, a short model and a short `fsx`.
pub(super) fn quick(sandbox: &Sandbox) -> Result<()> {
    programs(sandbox, QUICK)?;
    model(sandbox, 500)?;
    fsx(sandbox, 500, 7)
}

/// Runs all programs, a longer model, and `fsx` with several seeds.
pub(super) fn all(sandbox: &Sandbox) -> Result<()> {
    programs(sandbox, OTHERS)?;
    model(sandbox, 4000)?;
    (1..=4).try_for_each(|seed| fsx(sandbox, 2000, seed))
}

/// Runs programs of tests, each on a cluster of its own, and reports all that do not end as they should.
fn programs(sandbox: &Sandbox, programs: &[(&str, usize)]) -> Result<()> {
    let errors = programs.iter().filter_map(|(name, min_passed)| {
        let error = program(sandbox, name, *min_passed).err()?;
        Some(format!("ceph_test_{name} (see {name}.out): {error:#}"))
    });
    let errors: Vec<_> = errors.collect();
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(())
}

fn program(sandbox: &Sandbox, name: &str, min_passed: usize) -> Result<()> {
    // An image of 400 MB is written over and over between its snapshots: on a full cluster its test would wait.
    let _cluster = Server::cluster(sandbox, "--memory 4G")?;
    let said = run(sandbox, name, FILTER)?;
    sandbox.write(&format!("{name}.out"), &said)?;
    let outcomes = Outcomes::of_gtest(&said);
    let own: Vec<_> = listed(FAILURES).into_iter().filter(|(test, _)| outcomes.has(test)).collect();
    judge(&outcomes, &own, min_passed)
}

/// Runs the model of objects: random operations whose results it knows.
fn model(sandbox: &Sandbox, operations: u32) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    let line = format!("--pool rbd --max-ops {operations} {MODEL_SIZES} {MODEL}");
    let said = run(sandbox, "rados", &line)?;
    ensure!(said.contains("0 errors"), "ceph_test_rados finds errors:\n{}", sh::tail(said.as_bytes()));
    Ok(())
}

/// Runs `fsx` on an image, with clones and flattening.
fn fsx(sandbox: &Sandbox, operations: u32, seed: u32) -> Result<()> {
    let _cluster = Server::cluster(sandbox, "")?;
    let folder = sandbox.path(".").display().to_string();
    let line = format!(
        "-d -W -R -p 500 -P {folder} -r 1 -w 1 -t 1 -h 1 -l 25000000 -S {seed} -N {operations} rbd fsx"
    );
    let said = run(sandbox, "librbd_fsx", &line)?;
    ensure!(said.contains("All operations completed A-OK!"), "fsx fails:\n{}", sh::tail(said.as_bytes()));
    Ok(())
}

/// Runs a program and returns what it prints.
fn run(sandbox: &Sandbox, name: &str, line: &str) -> Result<String> {
    let program = package(sandbox)?.join(format!("usr/bin/ceph_test_{name}"));
    let line = format!("env CEPH_CONF=ceph.conf RBD_FEATURES=61 {} {line}", program.display());
    let output = sh::output(&mut sandbox.ceph_command_within(&line, PATIENCE))?;
    // 1 means that tests have failed.
    ensure!(
        output.status.code().is_some_and(|code| code < 2),
        "ceph_test_{name} ended with {}:\n{}",
        output.status,
        sh::tail(sh::both(&output).as_bytes())
    );
    Ok(sh::both(&output))
}

/// Returns the folder of the package, which is fetched the first time.
fn package(sandbox: &Sandbox) -> Result<PathBuf> {
    let suite = sandbox.release().suite();
    root::unpacked(suite, &format!("ceph-test-{suite}"), "ceph-test")
}
