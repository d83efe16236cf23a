//! A Prometheus that looks at commands of ours.

use super::steps::json;
use crate::cluster::Stage;
use crate::cluster::process::Daemon;
use crate::sh;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long it may take to have what was told before.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where it is asked.
const ADDRESS: &str = "127.0.0.1:9090";

/// A Prometheus that runs. It ends with this.
pub(super) struct Prometheus<'a> {
    stage: &'a Stage,
    programs: Programs,
    daemon: Daemon,
}

/// Whose Prometheus it is.
pub(super) enum Programs {
    /// That of the release of Debian that the stage has Ceph from.
    Stage,
    /// That of a package which is unpacked in this folder.
    Unpacked(PathBuf),
}

impl Programs {
    fn command(&self, stage: &Stage, program: &str) -> Command {
        match self {
            Self::Stage => stage.ceph_daemon(program),
            Self::Unpacked(folder) => stage.program(&folder.join("usr/bin").join(program), ""),
        }
    }
}

impl<'a> Prometheus<'a> {
    /// Starts one that looks once a second at each of these addresses, and waits until it has seen all of them.
    pub(super) fn start(stage: &'a Stage, programs: Programs, targets: &[String]) -> Result<Self> {
        let list = targets.iter().map(|target| format!("\"{target}\"")).collect::<Vec<_>>().join(", ");
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: onego\n    static_configs:\n      - targets: [{list}]\n"
        );
        fs::write(stage.path("prometheus.yml"), config)?;
        let mut command = programs.command(stage, "prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=prometheus"]);
        command.arg(format!("--web.listen-address={ADDRESS}"));
        let daemon = Daemon::spawn("prometheus", command, &stage.path("prometheus.out"))?;
        let mut started = Self { stage, programs, daemon };
        started.wait_for(&format!("sum(up) == {}", targets.len()))?;
        Ok(started)
    }

    /// What it answers to a query.
    pub(super) fn ask(&self, query: &str) -> Result<Value> {
        ask(self.stage, &self.programs, query)
    }

    /// The number that a query gives.
    pub(super) fn value(&self, query: &str) -> Result<f64> {
        let answer = self.ask(query)?;
        let text = answer[0]["value"][1].as_str().with_context(|| format!("{query}: {answer}"))?;
        Ok(text.parse()?)
    }

    /// Waits until a query has an answer.
    pub(super) fn wait_for(&mut self, query: &str) -> Result<()> {
        let (stage, programs) = (self.stage, &self.programs);
        let is_so = || ask(stage, programs, query).is_ok_and(|answer| has_rows(&answer));
        self.daemon.wait_until(&format!("an answer to {query}"), PATIENCE, is_so)
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(self) -> Result<()> {
        self.daemon.stop()
    }
}

fn ask(stage: &Stage, programs: &Programs, query: &str) -> Result<Value> {
    let mut command = programs.command(stage, "promtool");
    command.args(["query", "instant", "--format=json", &format!("http://{ADDRESS}"), query]);
    json(&sh::text(&mut command)?)
}

/// Does an answer say anything?
pub(super) fn has_rows(answer: &Value) -> bool {
    answer.as_array().is_some_and(|rows| !rows.is_empty())
}
