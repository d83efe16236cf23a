//! The table of scenarios, the longest first.

use crate::attacks;
use crate::capi;
use crate::embedded;
use crate::package;
use crate::scenario::Scenario;
use std::sync::LazyLock;

/// Returns all scenarios.
pub(crate) fn scenarios() -> &'static [Scenario] {
    static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
        [attacks::scenarios(), capi::scenarios(), embedded::scenarios(), package::scenarios()]
            .into_iter()
            .flatten()
            .collect()
    });
    &SCENARIOS
}
