//! The table of scenarios, the longest first.

use crate::scenario::Scenario;
use std::sync::LazyLock;

/// Returns all scenarios.
pub(crate) fn scenarios() -> &'static [Scenario] {
    static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
        vec![
            Scenario::new("mon-stat", "probe", |sandbox| {
                let _cluster = onego_sandbox::Server::cluster(sandbox, "")?;
                print!("{}", sandbox.ceph("ceph -s")?);
                Ok(())
            })
            .smoke(),
        ]
    });
    &SCENARIOS
}
