//! The tests of librbd's bindings, which go through all that images can do.

use super::{Outcomes, judge, run_tests};
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::long;
use crate::sh;
use anyhow::Result;

pub(in crate::interop) const FILE: &str = "test_rbd.py";

/// The features of the images that the tests make: those that images have that nobody chose them for.
pub(in crate::interop) const FEATURES: &str = "RBD_FEATURES=61";

/// Tests that fail, each with its reason. One that passes does not belong here.
pub(in crate::interop) const FAILURES: &[(&str, &str)] = &[(
    "TestMirroring::test_mirror_peer_bootstrap",
    "without keys there are no users, so that none can be made for a peer",
)];

/// Tests that must pass at least: a run of few would say nothing.
const MIN_PASSED: usize = 179;

/// All tests pass but those with a reason. In the long form they are run on a real cluster before, where no more may pass.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let mut min_passed = MIN_PASSED;
    if long::is_wanted() {
        let _ceph = RealCeph::start(stage, Store::Memory)?;
        let said = run_tests(stage, FILE, &[FEATURES])?;
        let outcomes = Outcomes::of(&said);
        let (passed, failed) = (outcomes.passed(), outcomes.failed());
        sh::step(&format!("on a real cluster {passed} tests have passed; failed: {failed:?}"));
        min_passed = passed - FAILURES.iter().filter(|(name, _)| outcomes.has_passed(name)).count();
        stage.empty()?;
    }
    let _cluster = Embedded::start(stage, "")?;
    let said = run_tests(stage, FILE, &[FEATURES])?;
    judge(&Outcomes::of(&said), FAILURES, min_passed)
}
