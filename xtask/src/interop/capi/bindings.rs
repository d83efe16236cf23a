//! Upstream's tests of Ceph's bindings for Python, on our library and our embedded cluster.

use super::library;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::embedded::bindings::{self, Outcomes, judge, run_tests};
use crate::long;
use anyhow::{Context as _, Result};

/// Tests of librados's bindings that fail on our library, each with its reason, besides those that fail on Ceph's. One that
/// passes does not belong here.
const RADOS_FAILURES: &[(&str, &str)] = &[];

/// The same on a real cluster.
const REAL_RADOS_FAILURES: &[(&str, &str)] =
    &[("TestRados::test_get_cluster_stats", "without a manager nobody counts what the cluster has")];

/// Tests of librados's bindings that must pass at least: a run of few would say nothing.
const MIN_RADOS_PASSED: usize = 85;

/// The same of librbd's bindings: names of tests, below lines with their reasons.
const RBD_FAILURES: &str = include_str!("rbd_failures.txt");
const MIN_RBD_PASSED: usize = 176;

/// The test of librbd's bindings that fails on our library with any cluster, besides those of the list.
const BOOTSTRAP: (&str, &str) = (
    "TestMirroring::test_mirror_peer_bootstrap",
    "the library makes no token for the peers of a mirrored pool",
);

/// The tests of librados's bindings.
pub(in crate::interop) fn rados(stage: &Stage) -> Result<()> {
    let embedded = [bindings::rados::FAILURES, RADOS_FAILURES].concat();
    run(stage, "test_rados.py", &[], MIN_RADOS_PASSED, REAL_RADOS_FAILURES, &embedded)
}

/// The tests of librbd's bindings.
pub(in crate::interop) fn rbd(stage: &Stage) -> Result<()> {
    let failures = [&listed(RBD_FAILURES)[..], &[BOOTSTRAP]].concat();
    let variables = [bindings::rbd::FEATURES];
    run(stage, bindings::rbd::FILE, &variables, MIN_RBD_PASSED, &failures, &failures)
}

/// The tests of a list, each with the reason that stands above it.
fn listed(list: &str) -> Vec<(&str, &str)> {
    let mut reason = "";
    let mut tests = Vec::new();
    for line in list.lines() {
        match line.strip_prefix("# ") {
            Some(next) => reason = next,
            None => tests.push((line, reason)),
        }
    }
    tests
}

/// Runs the tests of a file on the embedded cluster, and in the long form before that on a real one: those that have a reason fail, and
/// all others pass.
fn run(
    stage: &Stage,
    file: &str,
    variables: &[&str],
    min_passed: usize,
    real_failures: &[(&str, &str)],
    embedded_failures: &[(&str, &str)],
) -> Result<()> {
    let library = library::environment(stage);
    let variables = [&[library.as_str()], variables].concat();
    let tested = |failures: &[(&str, &str)]| {
        library::prepare(stage)?;
        let said = run_tests(stage, file, &variables)?;
        judge(&Outcomes::of(&said), failures, min_passed)
    };
    if long::is_wanted() {
        let _ceph = RealCeph::start(stage, Store::Memory)?;
        tested(real_failures).context("on a real cluster")?;
        stage.empty()?;
    }
    let _cluster = Embedded::start(stage, "")?;
    tested(embedded_failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_a_reason_for_each_test() {
        assert_eq!(listed("# a\nx\ny\n# b\nz\n"), [("x", "a"), ("y", "a"), ("z", "b")]);
        let all = listed(RBD_FAILURES);
        assert!(all.iter().all(|(test, reason)| test.contains("test_") && !reason.is_empty()));
    }
}
