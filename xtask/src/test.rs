//! Every test there is, counted.

use crate::interop;
use crate::long::{self, LONG};
use crate::packages;
use crate::program::find_onego;
use crate::sh;
use crate::tally::{Tally, is_failure};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, anyhow, bail};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Run what has a long form (simulation seeds, placement maps) in its long form
    #[arg(long)]
    long: bool,
    /// Only tests and scenarios with this in their name
    filter: Option<String>,
}

impl Options {
    /// Is the long form wanted?
    pub(crate) fn is_long(&self) -> bool {
        self.long
    }
}

/// What is run before the tests, and counts as one: its name, and what it does.
pub(crate) type Check = (&'static str, fn() -> Result<()>);

/// Runs these checks, the tests of all crates, then the interop scenarios, says how long each took, and ends with
/// `N passed, M failed`.
pub(crate) fn run(options: &Options, checks: &[Check]) -> Result<()> {
    long::want(options.long);
    let workspace = Workspace::load()?;
    let filter = options.filter.as_deref();
    // The tests of the codecs make their maps with Ceph's programs, so the packages come first.
    let mut tally = Tally::default();
    let mut problems = Vec::new();
    let mut add = |result: Result<Tally>| match result {
        Ok(part) => tally.add(part),
        Err(error) => {
            problems.push(format!("{error:#}"));
            tally.failed += 1;
        }
    };
    add(packages::ensure().map(|()| Tally::default()));
    let mut took = Took::default();
    for (name, check) in checks {
        add(took.time(name, check).map(|()| Tally { passed: 1, failed: 0 }));
    }
    let (tested, prepared) = thread::scope(|scope| {
        // It waits for the network and for disks, mostly.
        let prepared = scope.spawn(|| interop::prepare(&workspace, filter));
        let tested = took.time("tests of crates", || crate_tests(&workspace, options.long, filter));
        (tested, prepared.join().unwrap_or_else(|_| Err(anyhow!("what the scenarios take was not prepared"))))
    });
    add(tested);
    match prepared {
        Ok(None) => {}
        Ok(Some(prepared)) => {
            let program = program(&workspace, options.long);
            add(program.map(|onego| took.time("scenarios", || prepared.run(&onego))));
        }
        Err(error) => add(Err(error)),
    }
    for problem in &problems {
        eprintln!("\nfailed: {problem}");
    }
    took.print();
    let Tally { passed, failed } = tally;
    println!("\n{passed} passed, {failed} failed");
    if failed > 0 {
        // The count is to be the last line of all, so nothing more is said.
        std::process::exit(1);
    }
    Ok(())
}

/// How long each part of the run took.
#[derive(Default)]
struct Took(Vec<(&'static str, Duration)>);

impl Took {
    fn time<T>(&mut self, name: &'static str, part: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = part();
        self.0.push((name, start.elapsed()));
        result
    }

    fn print(&self) {
        println!();
        for (name, took) in &self.0 {
            println!("{name:26} {:8.1} s", took.as_secs_f64());
        }
    }
}

/// The program for the scenarios. In the short form it is the one that the tests of its crate have used: it is nearly as
/// quick, checks itself more, and to build it as users get it would take as long again as to build the tests.
fn program(workspace: &Workspace, long: bool) -> Result<PathBuf> {
    if long {
        return find_onego(workspace, None);
    }
    find_onego(workspace, Some(&workspace.target_directory.join("debug/onego")))
}

/// Runs `cargo test` over the workspace and counts what its test programs say.
fn crate_tests(workspace: &Workspace, long: bool, filter: Option<&str>) -> Result<Tally> {
    sh::step("cargo test --workspace");
    let mut command = workspace.cargo();
    // The scenarios want the program with all that it can do.
    command
        .args(["test", "--workspace", "--no-fail-fast", "--features", "onego-cli/rdma-core"])
        .args(filter)
        .stdout(Stdio::piped());
    if long {
        command.env(LONG, "1");
    }
    let mut child = command.spawn().context("cannot start cargo test")?;
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for line in BufReader::new(child.stdout.take().context("cargo test has no output")?).lines() {
        let line = line?;
        println!("{line}");
        if let Some(part) = Tally::of_summary(&line) {
            tally.add(part);
        }
        if is_failure(&line) {
            failures.push(line);
        }
    }
    let status = child.wait()?;
    // Said again: a long log is read from its end.
    failures.iter().for_each(|failure| eprintln!("{failure}"));
    if !status.success() && tally.failed == 0 {
        bail!("`cargo test --workspace` failed without a failing test (does it compile?): {status}");
    }
    Ok(tally)
}
