//! The table of scenarios, the longest first.

use crate::scenario::Scenario;
use crate::{attacks, capi, ceph, embedded, export, guests, nfs, package};
use std::sync::LazyLock;

/// Returns all scenarios.
pub(crate) fn scenarios() -> &'static [Scenario] {
    static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
        [
            guests::scenarios(),
            nfs::scenarios(),
            export::scenarios(),
            ceph::scenarios(),
            embedded::scenarios(),
            capi::scenarios(),
            attacks::scenarios(),
            package::scenarios(),
        ]
        .into_iter()
        .flatten()
        .collect()
    });
    &SCENARIOS
}
