//! `onego bench` as a load, and its results.

use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Daemon, Sandbox};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The part of a benchmark's row that shows whether it succeeded.
#[derive(Deserialize)]
struct Row {
    bench: String,
    ios: u64,
    errors: u64,
}

/// A verified load in the background.
pub(crate) struct Background {
    bench: Daemon,
    json: String,
}

impl Background {
    /// Starts writes to an image that are all read back at the end.
    pub(crate) fn verified_writes(sandbox: &Sandbox, seconds: u32) -> Result<Self> {
        Self::start(sandbox, "writes", "", "randwrite", seconds)
    }

    /// Starts a load of that kind by a client with these options. Its files are named after it.
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

    /// Fails if the load has ended: the events of a test must happen during it.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.bench.check_alive()
    }

    /// Waits for the end of the load. Fails if it saw an error.
    pub(crate) fn finish(self, sandbox: &Sandbox) -> Result<()> {
        self.bench.wait()?;
        no_errors(&sandbox.path(&self.json))
    }
}

/// Fails unless every row of a benchmark's JSON file did some I/O without errors.
pub(crate) fn no_errors(path: &Path) -> Result<()> {
    let rows: Vec<Row> = read_rows(path)?;
    ensure!(!rows.is_empty(), "{} has no rows", path.display());
    for Row { bench, ios, errors } in &rows {
        ensure!(*ios > 0, "{bench}: no I/O was done");
        ensure!(*errors == 0, "{bench}: {errors} of {ios} I/Os failed");
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
