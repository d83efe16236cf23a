//! Gets what scenarios take, and runs them.

use super::scenarios::{SCENARIOS, Scenario};
use crate::cluster::{Home, Installs, Stage};
use crate::program::find_onego;
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{guest, long, packages, sh};
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the scenarios and run none
    #[arg(long)]
    list: bool,
    /// Test this program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
    /// Only these scenarios, or those with one of these words in their name
    names: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct DocsOptions {
    /// Use this program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
}

/// Runs the scenario of the documents.
pub(crate) fn run_documents(DocsOptions { onego }: DocsOptions) -> Result<()> {
    run(&Options { list: false, onego, names: vec!["documents".to_owned()] })
}

/// Runs the scenarios that the options name. An error if one fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list {
        for scenario in SCENARIOS {
            println!("{:26} {}", scenario.name, scenario.what);
        }
        return Ok(());
    }
    packages::ensure()?;
    let named = |scenario: &&Scenario| {
        options.names.is_empty() || options.names.iter().any(|name| is_meant(scenario.name, name))
    };
    let scenarios: Vec<_> = SCENARIOS.iter().filter(named).collect();
    if scenarios.is_empty() {
        bail!("no scenario has such a name (see --list)");
    }
    let workspace = Workspace::load()?;
    let onego = find_onego(&workspace, options.onego.as_deref())?;
    match Prepared::new(&workspace, scenarios)?.run(&onego).failed {
        0 => Ok(()),
        failed => bail!("{failed} scenarios failed"),
    }
}

/// Does this word mean the scenario of that name? A word that is the whole name of one means that one alone.
fn is_meant(scenario: &str, word: &str) -> bool {
    if SCENARIOS.iter().any(|other| other.name == word) { scenario == word } else { scenario.contains(word) }
}

/// Scenarios that are to be run, and what they take.
pub(crate) struct Prepared {
    scenarios: Vec<&'static Scenario>,
    home: Home,
    installs: Installs,
}

/// Gets what the scenarios with `filter` in their names take, but for the program that they test. `None`: there are none.
pub(crate) fn prepare(workspace: &Workspace, filter: Option<&str>) -> Result<Option<Prepared>> {
    let matching = |scenario: &&Scenario| match filter {
        Some(filter) => scenario.name.contains(filter),
        None => !scenario.long || long::is_wanted(),
    };
    let scenarios: Vec<_> = SCENARIOS.iter().filter(matching).collect();
    if scenarios.is_empty() {
        return Ok(None);
    }
    Prepared::new(workspace, scenarios).map(Some)
}

impl Prepared {
    fn new(workspace: &Workspace, scenarios: Vec<&'static Scenario>) -> Result<Self> {
        let home = Home::enter(workspace)?;
        let installs = Installs::find(&home, scenarios.iter().map(|scenario| scenario.release))?;
        if scenarios.iter().any(|scenario| scenario.guest) {
            guest::prepare(&home)?;
        }
        Ok(Self { scenarios, home, installs })
    }

    /// Runs the scenarios with this program and counts them.
    ///
    /// Twice as many at a time as there are processors, because most wait more than they work. Guests do nothing but work: one
    /// thread takes those first, and the others take them last. The others begin at the end, where the longest one stands.
    pub(crate) fn run(&self, onego: &Path) -> Tally {
        let threads = 2 * available_parallelism().map_or(1, usize::from);
        let left = Mutex::new((0..self.scenarios.len()).collect::<VecDeque<_>>());
        let results = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for thread in 0..threads.min(self.scenarios.len()) {
                let left = &left;
                let take = move || match thread {
                    0 => lock(left).pop_front(),
                    _ => lock(left).pop_back(),
                };
                let results = &results;
                scope.spawn(move || {
                    while let Some(place) = take() {
                        let outcome = self.run_one(self.scenarios[place], onego);
                        lock(results).insert(place, outcome);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let table: Vec<_> = self.scenarios.iter().zip(results.into_values()).collect();
        print_table(&table);
        let failed = print_failures(&table);
        Tally { passed: table.len() - failed, failed }
    }

    /// Runs one scenario on a stage of its own, and says how it went.
    fn run_one(&self, scenario: &Scenario, onego: &Path) -> ScenarioOutcome {
        sh::step(&format!("{}: {}", scenario.name, scenario.what));
        let start = Instant::now();
        let result = Stage::new(&self.home, scenario.name, self.installs.of(scenario.release), onego)
            .and_then(|stage| {
                (scenario.run)(&stage)?;
                stage.clear()
            });
        let took = start.elapsed();
        let folder = self.home.folder(scenario.name);
        let result = result.with_context(|| format!("its files are in {}", folder.display()));
        match &result {
            Ok(()) => eprintln!("{} is ok after {:.1} s", scenario.name, took.as_secs_f64()),
            Err(error) => eprintln!("{} failed: {error:#}", scenario.name),
        }
        ScenarioOutcome { result, took }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a scenario went.
struct ScenarioOutcome {
    result: Result<()>,
    took: Duration,
}

fn print_table(table: &[(&&Scenario, ScenarioOutcome)]) {
    println!("\n{:26} {:6} {:>8}", "scenario", "result", "seconds");
    for (scenario, ScenarioOutcome { result, took }) in table {
        let result = if result.is_ok() { "ok" } else { "FAILED" };
        println!("{:26} {result:6} {:8.1}", scenario.name, took.as_secs_f64());
    }
}

/// Says again, behind the table, why scenarios failed, and counts them: a long log is read from its end.
fn print_failures(table: &[(&&Scenario, ScenarioOutcome)]) -> usize {
    let failures =
        table.iter().filter_map(|(scenario, outcome)| Some((scenario.name, outcome.result.as_ref().err()?)));
    failures.map(|(name, error)| eprintln!("\n{name} failed: {error:#}")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_name_means_one_scenario_and_a_part_of_it_all_that_have_it() {
        assert!(is_meant("krbd", "krbd") && !is_meant("krbd-cephx", "krbd"));
        assert!(is_meant("krbd-cephx", "krbd-c") && is_meant("ceph18-krbd-shared", "krbd-s"));
    }
}
