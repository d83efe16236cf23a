//! Upstream's tests of Ceph's bindings for Python, on our library.

use super::library;
use crate::upstream::{
    Outcomes, PACIFIC_RADOS_FAILURES, PACIFIC_RBD_FAILURES, RADOS_FAILURES, RBD_FEATURES, judge, listed,
    run_tests,
};
use anyhow::Result;
use onego_sandbox::{Release, Sandbox};

/// Tests of librados that fail on a real cluster, each with its reason.
const REAL_RADOS_FAILURES: &[(&str, &str)] =
    &[("TestRados::test_get_cluster_stats", "without a manager the cluster has no statistics")];

/// Tests of librbd that fail on any cluster.
const RBD_FAILURES: &[(&str, &str)] = &[
    ("TestMirroring::test_mirror_peer_bootstrap", "the library makes no bootstrap tokens for peers"),
    ("TestMirroring::test_aio_mirror_image_create_snapshot", NOT_EXPORTED),
    ("TestMirroring::test_mirror_image_create_snapshot", NOT_EXPORTED),
];
const NOT_EXPORTED: &str = "the library lacks a function that it calls";

/// A test that fails with 16.2 only because of a fault of its librbd.
const FAULT_OF_PACIFIC: &str = "TestGroups::test_group_snap_rollback";

pub(super) fn rados(sandbox: &Sandbox) -> Result<()> {
    run(sandbox, "test_rados.py", &[], RADOS_FAILURES, PACIFIC_RADOS_FAILURES, 85)
}

pub(super) fn rados_on_real_ceph(sandbox: &Sandbox) -> Result<()> {
    run(sandbox, "test_rados.py", &[], REAL_RADOS_FAILURES, PACIFIC_RADOS_FAILURES, 85)
}

pub(super) fn rbd(sandbox: &Sandbox) -> Result<()> {
    let pacific: Vec<_> =
        listed(PACIFIC_RBD_FAILURES).into_iter().filter(|(name, _)| *name != FAULT_OF_PACIFIC).collect();
    run(sandbox, "test_rbd.py", &[RBD_FEATURES], RBD_FAILURES, &pacific, 176)
}

/// Runs the tests of a file. Those listed with a reason must fail, all others pass, and at least `min_passed` with 18.2.
fn run(
    sandbox: &Sandbox,
    file: &str,
    variables: &[&str],
    failures: &[(&str, &str)],
    pacific: &[(&str, &str)],
    min_passed: usize,
) -> Result<()> {
    library::prepare(sandbox)?;
    let library = library::environment(sandbox);
    let said = run_tests(sandbox, file, &[&[library.as_str()], variables].concat())?;
    let of_release = if sandbox.release() == Release::Pacific { pacific } else { &[] };
    judge(&Outcomes::of(&said), &[failures, of_release].concat(), min_passed - of_release.len())
}
