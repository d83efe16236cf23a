//! The table of scenarios, the longest first.

use crate::ceph;
use crate::scenario::Scenario;
use std::sync::LazyLock;

/// Returns all scenarios.
pub(crate) fn scenarios() -> &'static [Scenario] {
    static SCENARIOS: LazyLock<Vec<Scenario>> =
        LazyLock::new(|| [ceph::scenarios()].into_iter().flatten().collect());
    &SCENARIOS
}
