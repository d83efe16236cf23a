//! `onego bench` as a load, and what it says of it.

use anyhow::{Context as _, Result, ensure};
use onego_sandbox::Daemon;
use onego_sandbox::Sandbox;
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The part of a benchmark's row that tells whether it went well.
#[derive(Deserialize)]
struct Row {
    bench: String,
    ios: u64,
    errors: u64,
}

/// A verified load that runs while something else happens.
pub(crate) struct Background {
    bench: Daemon,
    json: String,
}

impl Background {
    /// Starts writes that are all read back at the end.
    pub(crate) fn verified_writes(sandbox: &Sandbox, seconds: u32) -> Result<Self> {
        Self::start(sandbox, "writes", "", "randwrite", seconds)
    }

    /// Starts a load of that kind, by a client with these options. Files are named after it.
    pub(crate) fn start(
        sandbox: &Sandbox,
        name: &str,
        options: &str,
        kind: &str,
        seconds: u32,
    ) -> Result<Self> {
        let json = format!("{name}.json");
        let line = format!(
            "{options} bench rbd --cluster ceph.conf --rw {kind} --block-size 4k --io-depth 16 --size 64M \
             --seconds {seconds} --verify --json {json}"
        );
        let log = sandbox.path(format!("{name}.out"));
        let bench = Daemon::spawn("onego bench", sandbox.onego_daemon(&line), &log)?;
        Ok(Self { bench, json })
    }

    /// An error if the load is over: then what happens meanwhile does not happen to it.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.bench.check_alive()
    }

    /// Waits for the end of the load. An error if it saw one.
    pub(crate) fn finish(self, sandbox: &Sandbox) -> Result<()> {
        self.bench.wait()?;
        no_errors(&sandbox.path(&self.json))
    }
}

/// Every row of a benchmark's JSON file did some I/O, and none of it failed.
pub(crate) fn no_errors(path: &Path) -> Result<()> {
    let rows: Vec<Row> = read_rows(path)?;
    ensure!(!rows.is_empty(), "{} has no rows", path.display());
    for row in &rows {
        ensure!(row.ios > 0, "{}: no I/O was done", row.bench);
        ensure!(row.errors == 0, "{}: {} of {} I/Os failed", row.bench, row.errors, row.ios);
    }
    Ok(())
}

/// Reads the rows of a benchmark: one JSON object a line.
pub(crate) fn read_rows<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display())))
        .collect()
}
