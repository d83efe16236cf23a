//! Runs the tests of all tiers and counts them.

use crate::workspace::Workspace;
use crate::{fuzz, lint};
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run the full matrix of scenarios instead of the smoke tier
    #[arg(long)]
    all: bool,
    /// Run long forms: more seeds, longer loads; with --all the soaks, too
    #[arg(long)]
    long: bool,
    /// Run only tests and scenarios with this in their names
    filter: Option<String>,
}

/// Exit status of a run without a failure that left tests out.
const INCOMPLETE: i32 = 3;

/// Features of the programs that scenarios use.
const FEATURES: &str = "--features=onego-cli/rdma-core";

/// Numbers of tests that passed, failed and did not run.
type Counts = [usize; 3];

/// Runs the tests, then prints the time of each part, the tests that were left out and the counts. CI starts with lint
/// and instruction counts and, in the long form, a few seconds of fuzzing.
///
/// Ends the process with status 1 if a test failed and [`INCOMPLETE`] if tests were left out.
pub(crate) fn run(workspace: &Workspace, options: &Options, is_ci: bool) -> Result<()> {
    let (mut total, mut times, mut notes) = ([0; 3], String::new(), Vec::new());
    let mut add = |name: &str, part: &dyn Fn(&mut Vec<String>) -> Result<Counts>| {
        let start = Instant::now();
        let counts = part(&mut notes);
        times += &format!("{name:14} {:8.1} s\n", start.elapsed().as_secs_f64());
        let counts = counts.unwrap_or_else(|error| {
            notes.push(format!("{name} failed: {error:#}"));
            [0, 1, 0]
        });
        total = std::array::from_fn(|place| total[place] + counts[place]);
    };
    if is_ci {
        add("lint", &|_| lint::run(workspace, &lint::Options::default()).map(|()| [1, 0, 0]));
    }
    if is_ci && options.long {
        add("fuzz", &|_| fuzz::briefly(workspace).map(|()| [1, 0, 0]));
    }
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(&workspace.root).args(arguments);
        command.envs(options.long.then_some(("ONEGO_TEST_LONG", "1")));
        command
    };
    // The scenarios' program first: it fetches packages and kernels while the tests compile.
    let scenarios = workspace.target.join("debug/scenarios");
    let tier = if options.all && options.long {
        "long"
    } else if options.all {
        "all"
    } else {
        "smoke"
    };
    add("build", &|_| {
        ensure!(succeeds(&mut cargo(&[
            "build",
            "--profile=test",
            "--workspace",
            "--bin=scenarios",
            FEATURES
        ]))?);
        let mut preparing = Command::new(&scenarios).args(["--prepare", "--tier", tier]).spawn()?;
        let built = succeeds(&mut cargo(&["test", "--no-run", "--workspace", FEATURES]));
        // A host without apt runs the crate tests all the same, and the scenarios report what they lack.
        preparing.wait()?;
        ensure!(built?, "the tests do not compile");
        Ok([0; 3])
    });
    add("crate tests", &|notes| {
        let mut command = cargo(&["test", "--workspace", "--no-fail-fast", FEATURES]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let tools = std::iter::once(workspace.target.join("roots/bin")).chain(std::env::split_paths(&path));
        command.args(&options.filter).env("PATH", std::env::join_paths(tools)?);
        // Many tests wait for timers and child processes.
        command.env("RUST_TEST_THREADS", (2 * available_parallelism()?.get()).to_string());
        count(&mut command, notes)
    });
    // They take a build of their own.
    if is_ci || options.all {
        let valgrind = workspace.target.join("roots/bin/valgrind");
        add("instructions", &|_| {
            let mut command = cargo(&["counts", "--valgrind"]);
            ensure!(succeeds(command.arg(&valgrind))?, "see the table above");
            Ok([1, 0, 0])
        });
    }
    add("scenarios", &|notes| {
        let mut command = Command::new(&scenarios);
        command
            .args(["--tier", tier, "--onego"])
            .arg(workspace.target.join("debug/onego"))
            .args(&options.filter);
        command.envs(options.long.then_some(("ONEGO_TEST_LONG", "1")));
        count(&mut command, notes)
    });
    let [passed, failed, ignored] = total;
    println!("\n{times}");
    notes.iter().for_each(|note| println!("{note}"));
    println!("{passed} passed, {failed} failed, {ignored} skipped");
    // Without a message: the counts must be the last line.
    match (failed, ignored) {
        (0, 0) => Ok(()),
        (0, _) => std::process::exit(INCOMPLETE),
        _ => std::process::exit(1),
    }
}

fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?.success())
}

/// Runs test programs and counts their results. Adds failures and tests that were left out to `notes`.
fn count(command: &mut Command, notes: &mut Vec<String>) -> Result<Counts> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let mut total = [0; 3];
    for line in BufReader::new(child.stdout.take().context("the tests have no output")?).lines() {
        let line = line?;
        println!("{line}");
        if let Some(counts) = parse(&line) {
            total = std::array::from_fn(|place| total[place] + counts[place]);
        } else if line.starts_with("left out: ") || is_result(&line, "FAILED") || is_result(&line, "ignored")
        {
            notes.push(line);
        }
    }
    let status = child.wait()?;
    let is_counted = status.success() || total[1] > 0 || status.code() == Some(INCOMPLETE);
    ensure!(is_counted, "no test failed, but the run did: {status}");
    Ok(total)
}

/// Returns whether a line reports this result of a test: `test a::b ... FAILED`, perhaps with a reason.
fn is_result(line: &str, result: &str) -> bool {
    line.starts_with("test ") && line.contains(&format!("... {result}"))
}

/// Parses the last line of a test program: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn parse(line: &str) -> Option<Counts> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word| counts.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_test_program_is_parsed() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        assert_eq!(parse(line), Some([12, 3, 1]));
        assert_eq!(parse("test result_is_read ... ok"), None);
        assert!(is_result("test result_is_read ... FAILED", "FAILED") && !is_result(line, "FAILED"));
    }
}
