//! Every test there is, counted.

use crate::interop;
use crate::packages;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, anyhow, bail};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Set for tests that know a short and a long way to run (more seeds, more maps).
const LONG: &str = "ONEGO_TEST_LONG";

/// Was the long way asked for on the command line?
static LONG_WANTED: AtomicBool = AtomicBool::new(false);

/// Do scenarios take the long way?
pub(crate) fn is_long() -> bool {
    LONG_WANTED.load(Ordering::Relaxed) || std::env::var_os(LONG).is_some()
}

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Run what has a long form (simulation seeds, placement maps) in its long form
    #[arg(long)]
    long: bool,
    /// Only tests and scenarios with this in their name
    filter: Option<String>,
}

/// What was run, and how it went.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// Runs the tests of all crates, then the interop scenarios, and ends with `N passed, M failed`.
pub(crate) fn run(options: &Options) -> Result<()> {
    LONG_WANTED.store(options.long, Ordering::Relaxed);
    let workspace = Workspace::load()?;
    let filter = options.filter.as_deref();
    // The tests of the codecs make their maps with Ceph's programs, so the packages come first.
    let mut tally = Tally::default();
    let mut problems = Vec::new();
    let mut add = |result: Result<Tally>| match result {
        Ok(part) => {
            tally.passed += part.passed;
            tally.failed += part.failed;
        }
        Err(error) => {
            problems.push(format!("{error:#}"));
            tally.failed += 1;
        }
    };
    add(packages::ensure().map(|()| Tally::default()));
    let (tested, prepared) = thread::scope(|scope| {
        // It waits for the network and for disks, mostly.
        let prepared = scope.spawn(|| interop::prepare(&workspace, filter));
        let tested = crate_tests(&workspace, options.long, filter);
        (tested, prepared.join().unwrap_or_else(|_| Err(anyhow!("what the scenarios take was not prepared"))))
    });
    add(tested);
    match prepared {
        Ok(None) => {}
        Ok(Some(prepared)) => add(program(&workspace, options.long).map(|onego| prepared.run(&onego))),
        Err(error) => add(Err(error)),
    }
    for problem in &problems {
        eprintln!("\nfailed: {problem}");
    }
    let Tally { passed, failed } = tally;
    println!("\n{passed} passed, {failed} failed");
    if failed > 0 {
        // The count is to be the last line of all, so nothing more is said.
        std::process::exit(1);
    }
    Ok(())
}

/// The program for the scenarios. In the short form it is the one that the tests of its crate have used: it is nearly as
/// quick, checks itself more, and to build it as users get it would take as long again as to build the tests.
fn program(workspace: &Workspace, long: bool) -> Result<PathBuf> {
    if long {
        return interop::find_onego(workspace, None);
    }
    interop::find_onego(workspace, Some(&workspace.target_directory.join("debug/onego")))
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
    let mut tally = Tally::default();
    for line in BufReader::new(child.stdout.take().context("cargo test has no output")?).lines() {
        let line = line?;
        println!("{line}");
        if let Some(part) = summary(&line) {
            tally.passed += part.passed;
            tally.failed += part.failed;
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        bail!("`cargo test --workspace` failed without a failing test (does it compile?): {status}");
    }
    Ok(tally)
}

/// Reads `test result: ok. 3 passed; 0 failed; ...`, the last line of a test program.
fn summary(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| {
        counts
            .split("; ")
            .find_map(|part| part.strip_suffix(what))
            .and_then(|number| number.trim().parse().ok())
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_test_program_is_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        assert_eq!(summary(line), Some(Tally { passed: 12, failed: 3 }));
        assert_eq!(summary("test result_is_read ... ok"), None);
    }
}
