//! Runs the tests and counts them.

use crate::workspace::Workspace;
use crate::{fuzz, lint};
use anyhow::{Context as _, Result, ensure};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also run the scenarios that are not smoke tests
    #[arg(long)]
    all: bool,
    /// Run the long form of tests: more seeds, longer loads
    #[arg(long)]
    long: bool,
    /// Run only tests with this in their name
    filter: Option<String>,
}

/// Test counts.
#[derive(Default, Debug, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
}

/// Runs the tests and prints the time of each part; the last line is `N passed, M failed`. CI begins with lint, and in the
/// long form with a few seconds of fuzzing.
pub(crate) fn run(workspace: &Workspace, options: &Options, is_ci: bool) -> Result<()> {
    let (mut total, mut report) = (Tally::default(), String::new());
    let mut add = |name: &str, part: &dyn Fn() -> Result<Tally>| {
        let start = Instant::now();
        let result = part();
        report += &format!("{name:12} {:8.1} s\n", start.elapsed().as_secs_f64());
        total.add(&result.unwrap_or_else(|error| {
            report += &format!("{name} failed: {error:#}\n");
            Tally { failed: 1, ..Tally::default() }
        }));
    };
    let passed = |()| Tally { passed: 1, ..Tally::default() };
    if is_ci {
        add("lint", &|| lint::run(workspace, &lint::Options::default()).map(passed));
    }
    if is_ci && options.long {
        add("fuzz", &|| fuzz::briefly(workspace).map(passed));
    }
    add("tests", &|| cargo_test(workspace, options));
    let Tally { passed, failed, ignored } = total;
    println!("\n{report}\n{ignored} not run\n{passed} passed, {failed} failed");
    if failed > 0 {
        // Without a message: the counts must be the last line.
        std::process::exit(1);
    }
    Ok(())
}

/// Runs `cargo test --workspace` and counts the results of its test programs.
fn cargo_test(workspace: &Workspace, options: &Options) -> Result<Tally> {
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root);
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&options.filter);
    command.envs(options.long.then_some(("ONEGO_TEST_LONG", "1")));
    command.envs(options.all.then_some(("ONEGO_TEST_ALL", "1")));
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for line in BufReader::new(child.stdout.take().context("cargo test has no output")?).lines() {
        let line = line?;
        println!("{line}");
        if let Some(counts) = Tally::parse(&line) {
            tally.add(&counts);
        } else if line.starts_with("test ") && line.ends_with("... FAILED") {
            failures.push(line);
        }
    }
    // Again at the end, where a reader of a long log looks.
    failures.iter().for_each(|failure| eprintln!("{failure}"));
    let status = child.wait()?;
    let is_counted = status.success() || tally.failed > 0;
    ensure!(is_counted, "cargo test failed without a failed test (does it compile?): {status}");
    Ok(tally)
}

impl Tally {
    /// Parses the last line of a test program: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn parse(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word| counts.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
        Some(Self { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")? })
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_test_program_is_parsed() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        assert_eq!(Tally::parse(line), Some(Tally { passed: 12, failed: 3, ignored: 1 }));
        assert_eq!(Tally::parse("test result_is_read ... ok"), None);
    }
}
