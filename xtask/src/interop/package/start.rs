//! How long the program takes to start.

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Most time until the program has said its version: its own, on a processor. It waits for nothing else but its turn, and scenarios run
/// at once.
const VERSION: Duration = Duration::from_millis(5);

/// Most time until a cluster serves.
const CLUSTER: Duration = Duration::from_millis(50);

/// How often it is tried: the quickest counts, because whatever else the machine does only ever makes it slower.
const TRIES: usize = 40;

pub(super) fn check(program: &Path) -> Result<()> {
    let mut version = Duration::MAX;
    for _ in 0..TRIES {
        version = version.min(processor_time(Command::new(program).arg("--version"))?);
    }
    let cluster = quickest(|| {
        let mut command = Command::new(program);
        command.args(["cluster", "start", "--die-with-parent"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().context("it has no output")?).lines();
        let is_ready = lines.map_while(Result::ok).any(|line| line.starts_with("ready:"));
        ensure!(is_ready, "no cluster serves");
        Ok(child)
    })?;
    eprintln!("version after {version:?}, cluster after {cluster:?}");
    ensure!(version <= VERSION, "it says its version after {version:?}: {VERSION:?} are wanted");
    ensure!(cluster <= CLUSTER, "a cluster serves after {cluster:?}: {CLUSTER:?} are wanted");
    Ok(())
}

/// How long a program with one thread runs on a processor, as the scheduler counts it.
fn processor_time(command: &mut Command) -> Result<Duration> {
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let pid = child.id();
    // What it took can be read until somebody has waited for it.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(Pid::from_child(&child)), ended)?;
    let counts = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    ensure!(child.wait()?.success(), "it fails");
    let nanos = counts.split_whitespace().next().context("the scheduler has counted nothing")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// The least time until something runs, which is ended afterwards.
fn quickest(mut something: impl FnMut() -> Result<Child>) -> Result<Duration> {
    let mut quickest = Duration::MAX;
    for _ in 0..TRIES {
        let start = Instant::now();
        let mut running = something()?;
        quickest = quickest.min(start.elapsed());
        // By a signal that lets it remove what it made.
        crate::sh::run(Command::new("kill").arg(running.id().to_string()))?;
        running.wait()?;
    }
    Ok(quickest)
}
