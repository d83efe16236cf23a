//! A Prometheus that scrapes our commands.

use crate::steps::json;
use anyhow::{Context as _, Result};
use onego_sandbox::{Daemon, Sandbox, sh};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Time a query gets until it has an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Address of its API.
const ADDRESS: &str = "127.0.0.1:9090";

/// Returns a line of Prometheus's programs as a command: [`Sandbox::ceph_daemon`] for those of the release.
pub(crate) type Programs = dyn Fn(&Sandbox, &str) -> Command;

/// A running Prometheus. Dropping it kills the process.
pub(crate) struct Prometheus<'a> {
    sandbox: &'a Sandbox,
    programs: &'a Programs,
    daemon: Daemon,
}

impl<'a> Prometheus<'a> {
    /// Starts one that scrapes each of these addresses once a second, and waits until it has reached all of them.
    pub(crate) fn start(sandbox: &'a Sandbox, programs: &'a Programs, targets: &[String]) -> Result<Self> {
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: onego\n    static_configs:\n      - targets: \
             {targets:?}\n"
        );
        sandbox.write("prometheus.yml", config)?;
        let options = "--config.file=prometheus.yml --storage.tsdb.path=prometheus";
        let command = programs(sandbox, &format!("prometheus {options} --web.listen-address={ADDRESS}"));
        let daemon = Daemon::spawn("prometheus", command, &sandbox.path("prometheus.out"))?;
        let mut started = Self { sandbox, programs, daemon };
        started.wait_for(&format!("sum(up) == {}", targets.len()))?;
        Ok(started)
    }

    /// Returns the answer to a query.
    pub(crate) fn ask(&self, query: &str) -> Result<Value> {
        ask(self.sandbox, self.programs, query)
    }

    /// Returns the number that a query results in.
    pub(crate) fn value(&self, query: &str) -> Result<f64> {
        let answer = self.ask(query)?;
        let text = answer[0]["value"][1].as_str().with_context(|| format!("{query}: {answer}"))?;
        Ok(text.parse()?)
    }

    /// Waits until a query has an answer.
    pub(crate) fn wait_for(&mut self, query: &str) -> Result<()> {
        let (sandbox, programs) = (self.sandbox, self.programs);
        let ready = || ask(sandbox, programs, query).is_ok_and(|answer| has_rows(&answer));
        self.daemon.wait_until(&format!("answer to {query}"), PATIENCE, ready)
    }

    /// Ends it with SIGTERM and waits for it.
    pub(crate) fn stop(self) -> Result<()> {
        self.daemon.stop()
    }
}

fn ask(sandbox: &Sandbox, programs: &Programs, query: &str) -> Result<Value> {
    let mut command = programs(sandbox, "promtool query instant --format=json");
    json(&sh::text(command.args([&format!("http://{ADDRESS}"), query]))?)
}

/// Returns whether an answer is not empty.
pub(crate) fn has_rows(answer: &Value) -> bool {
    answer.as_array().is_some_and(|rows| !rows.is_empty())
}
