//! Upstream's own tests of librados's bindings for Python, from Debian's source package of Ceph, on our embedded cluster.

use super::{Outcomes, judge, run_tests};
use crate::cluster::{Embedded, Stage};
use crate::sh;
use anyhow::Result;

/// Tests that fail, each with its reason. One that passes does not belong here.
pub(in crate::interop) const FAILURES: &[(&str, &str)] =
    &[("TestRados::test_get_pool_base_tier", NO_TIERS), ("TestIoctxEc::test_alignment", NO_ERASURE_CODING)];
const NO_TIERS: &str = "the embedded cluster has no cache tiers";
const NO_ERASURE_CODING: &str = "the embedded cluster has no erasure-coded pools";

/// Tests that count the references to an object, and fail with Python 3.14, which borrows one of those that were counted
/// before: with any cluster.
const COUNT_REFERENCES: [&str; 3] = [
    "TestIoctx::test_aio_read_wait_for_complete",
    "TestIoctx::test_aio_read_wait_for_complete_and_cb",
    "TestIoctx::test_aio_read_wait_for_complete_and_cb_error",
];
const BORROWS: &str = "Python 3.14 and later count fewer references";

/// A program whose local variable has two references where Python counts all of them.
const COUNTS_ALL: &str = "import sys
def counted():
    own = object()
    return sys.getrefcount(own)
print(counted() == 2)";

/// Leaves out the one test in which Ceph's own library may crash: it connects to a monitor for a sign of life before it has set up who
/// answers for the connection. Our library takes the test.
const WITHOUT_PING: &str = "PYTEST_ADDOPTS=--deselect=test_rados.py::TestRados::test_ping_monitor";

/// Tests that must pass at least: a run of few would say nothing.
const MIN_PASSED: usize = 75;

/// The tests of the release whose bindings are there.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    let said = run_tests(stage, "test_rados.py", &[WITHOUT_PING])?;
    let mut python = stage.ceph_command("python3 -c");
    let counts_all = sh::text(python.arg(COUNTS_ALL))?;
    judge(&Outcomes::of(&said), &failures(counts_all.trim() == "True"), MIN_PASSED)
}

/// The tests that fail with a Python that counts all references, or with another.
fn failures(counts_all: bool) -> Vec<(&'static str, &'static str)> {
    let borrowed = COUNT_REFERENCES.iter().filter(|_| !counts_all).map(|name| (*name, BORROWS));
    FAILURES.iter().copied().chain(borrowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pytest says if all tests do as they should.
    fn said(failures: &[(&str, &str)], more: &str) -> String {
        let passed: String =
            (0..MIN_PASSED).map(|n| format!("PASSED test_rados.py::TestA::test_{n}\n")).collect();
        let failed: String = failures
            .iter()
            .map(|(name, _)| format!("FAILED test_rados.py::{name} - rados.OSError: no\n"))
            .collect();
        format!("....F\n=== short test summary info ===\n{passed}{failed}{more}86 passed\n")
    }

    #[test]
    fn exactly_the_tests_that_have_a_reason_may_fail() {
        for counts_all in [true, false] {
            let (failures, others) = (failures(counts_all), failures(!counts_all));
            let judge = |said: &str| judge(&Outcomes::of(said), &failures, MIN_PASSED);
            assert!(judge(&said(&failures, "")).is_ok());
            assert!(judge(&said(&others, "")).is_err(), "another Python counts otherwise");
            let other = said(&failures, "ERROR test_rados.py::TestA::test_1 - assert 1 == 2\n");
            assert!(judge(&other).unwrap_err().to_string().contains("TestA::test_1"));
            let better = said(&failures, "");
            let better =
                better.replace("FAILED test_rados.py::TestIoctxEc", "PASSED test_rados.py::TestIoctxEc");
            assert!(judge(&better).unwrap_err().to_string().contains("take it off the list"));
            assert!(judge(&said(&failures, "").replace("TestIoctxEc", "TestErasure")).is_err());
            assert!(judge("").is_err());
        }
    }
}
