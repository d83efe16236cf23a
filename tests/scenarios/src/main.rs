//! Tests of our programs against real peers: Ceph's daemons and programs, the kernel's clients in guests, QEMU, fio,
//! libnbd, libnfs, and others. `table.rs` lists the scenarios; everything they run in comes from `onego-sandbox`.
#![forbid(unsafe_code)]

mod attacks;
mod bench;
mod capi;
mod ceph;
mod documents;
mod embedded;
mod export;
mod guests;
mod nfs;
mod package;
mod prometheus;
mod scenario;
mod steps;
mod table;
mod upstream;

use anyhow::Result;
use clap::Parser;
use libtest_mimic::{Arguments, Failed, Trial};
use onego_sandbox::{Release, Sandbox, root, workspace};
use scenario::{Scenario, Tier};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Run tests against real peers.
#[derive(Parser)]
#[command(name = "cargo scenarios", bin_name = "cargo scenarios")]
struct Options {
    /// Run scenarios with this text in their names, of any tier [default: the smoke tier]
    filter: Option<String>,
    /// Run only the scenario with exactly that name, as --list prints it
    #[arg(long)]
    exact: bool,
    /// Run this tier and those before it
    #[arg(long, value_enum, default_value = "smoke")]
    tier: Tier,
    /// List scenarios and their tiers instead of running them
    #[arg(long)]
    list: bool,
    /// Get roots, kernels and packages and run nothing
    #[arg(long)]
    prepare: bool,
    /// Test this program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
    /// Run that many scenarios at a time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Exit status of a run that left scenarios out.
const INCOMPLETE: u8 = 3;

/// Seconds of each scenario that has run.
static DURATIONS: Mutex<BTreeMap<String, f64>> = Mutex::new(BTreeMap::new());

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("scenarios: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    let runs = select(options);
    if runs.is_empty() {
        let filter = options.filter.as_deref().unwrap_or_default();
        eprintln!("scenarios: no scenario is called {filter:?}: see `cargo scenarios --list`");
        return Ok(ExitCode::from(INCOMPLETE));
    }
    if options.list {
        for (scenario, release) in &runs {
            let tier = format!("{:?}", scenario.tier()).to_lowercase();
            println!("{:28} {tier:6} {}", scenario.name_with(*release), scenario.about());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let start = Instant::now();
    let missing = prepare(&runs).err().map(|error| format!("{error:#}"));
    if options.prepare {
        eprintln!("roots and guests are ready after {:.1} s", start.elapsed().as_secs_f64());
        return Ok(ExitCode::SUCCESS);
    }
    let onego = match &options.onego {
        Some(program) => program.canonicalize()?,
        None => workspace::onego()?,
    };
    let mut left_out = Vec::new();
    let mut trials = Vec::new();
    for (scenario, release) in runs {
        let name = scenario.name_with(release);
        let reason = match &missing {
            Some(missing) => Some(missing.clone()),
            None if scenario.needs_root() && !root::is_root() => Some("needs root".to_owned()),
            None => None,
        };
        let is_left_out = reason.is_some();
        left_out.extend(reason.map(|reason| format!("{name}: {reason}")));
        let onego = onego.clone();
        let trial = Trial::test(name.clone(), move || {
            let start = Instant::now();
            let result = scenario.run(release, &onego).map_err(|error| Failed::from(format!("{error:#}")));
            DURATIONS.lock().expect("no holder panics").insert(name, start.elapsed().as_secs_f64());
            result
        });
        trials.push(trial.with_ignored_flag(is_left_out));
    }
    // Most scenarios wait more than they work.
    let jobs = options.jobs.unwrap_or(2 * available_parallelism()?.get());
    let arguments = Arguments { test_threads: Some(jobs), ..Arguments::default() };
    let conclusion = libtest_mimic::run(&arguments, trials);
    record_durations()?;
    left_out.iter().for_each(|line| println!("left out: {line}"));
    Ok(match (conclusion.has_failed(), left_out.is_empty()) {
        (true, _) => ExitCode::FAILURE,
        (false, false) => ExitCode::from(INCOMPLETE),
        (false, true) => ExitCode::SUCCESS,
    })
}

/// Returns the scenarios to run or list, each with a release.
fn select(options: &Options) -> Vec<(&'static Scenario, Release)> {
    let tier = if options.filter.is_some() || options.list { Tier::Long } else { options.tier };
    let rows = table::scenarios().iter().filter(|scenario| scenario.tier() <= tier);
    let runs = rows
        .flat_map(|scenario| scenario.releases_for(tier).into_iter().map(move |release| (scenario, release)));
    let matches = |name: &str| match &options.filter {
        Some(filter) if options.exact => name == filter,
        Some(filter) => name.contains(filter.as_str()),
        None => true,
    };
    runs.filter(|(scenario, release)| matches(&scenario.name_with(*release))).collect()
}

/// Makes what the scenarios run in, so that none has to wait for it. Fails if this system lacks something for all.
fn prepare(runs: &[(&Scenario, Release)]) -> Result<()> {
    root::oracles()?;
    for release in Release::ALL {
        if runs.iter().any(|(_, used)| *used == release) {
            release.root()?;
        }
    }
    Sandbox::new(
        &format!("probe-{}", std::process::id()),
        Release::Pacific,
        "onego".as_ref(),
        Duration::from_secs(60),
    )?
    .clear()?;
    onego_sandbox::prepare_guests()
}

/// Writes how long each scenario took, longest first, and prints the sum.
fn record_durations() -> Result<()> {
    let durations = DURATIONS.lock().expect("no holder panics");
    let mut rows: Vec<_> = durations.iter().collect();
    rows.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let text: String = rows.iter().map(|(name, seconds)| format!("{seconds:8.1} {name}\n")).collect();
    let file = workspace::target()?.join("sandbox/durations.txt");
    fs::create_dir_all(file.with_file_name(""))?;
    fs::write(&file, &text)?;
    print!("\nseconds:\n{text}");
    Ok(())
}
