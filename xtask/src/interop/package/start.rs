//! How long the program takes to start.

use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most time until the program has said its version.
const VERSION: Duration = Duration::from_millis(5);

/// Most time until a cluster serves.
const CLUSTER: Duration = Duration::from_millis(50);

/// How often it is tried: the quickest counts, because whatever else the machine does only ever makes it slower.
const TRIES: usize = 40;

pub(super) fn check(program: &Path) -> Result<()> {
    let version = quickest(|| {
        let status = Command::new(program).arg("--version").stdout(Stdio::null()).status()?;
        ensure!(status.success(), "it says no version");
        Ok(())
    })?;
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

/// The least time that something takes; what it gives is ended afterwards.
fn quickest<T: End>(mut something: impl FnMut() -> Result<T>) -> Result<Duration> {
    let mut quickest = Duration::MAX;
    for _ in 0..TRIES {
        let start = Instant::now();
        let made = something()?;
        quickest = quickest.min(start.elapsed());
        made.end()?;
    }
    Ok(quickest)
}

/// Something that may have to be ended.
trait End {
    fn end(self) -> Result<()>;
}

impl End for () {
    fn end(self) -> Result<()> {
        Ok(())
    }
}

impl End for std::process::Child {
    fn end(mut self) -> Result<()> {
        // By a signal that lets it remove what it made.
        crate::sh::run(Command::new("kill").arg(self.id().to_string()))?;
        self.wait()?;
        Ok(())
    }
}
