//! Instruction counts of the data path, held against those in `counts.toml`: `cargo counts`.
//!
//! It runs callgrind itself, because gungraun needs a runner of the same version to be installed beforehand and cannot tell the two
//! sides of one operation apart.
//!
//! The design is in `docs/design/instruction-counts.md`.
#![forbid(unsafe_code)]

mod callgrind;
mod operations;
mod pair;
mod stored;

use anyhow::{Context as _, Result, bail, ensure};
use callgrind::{Cost, RUN, Valgrind};
use operations::{CountedOp, OPERATIONS};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use stored::{Counts, Key, failure};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/counts.toml");

const USAGE: &str = "\
Count the instructions of the data path under valgrind, and compare them with tests/counts/counts.toml

Usage: cargo counts [--only NAME] [--update] [--valgrind PROGRAM]
       cargo counts --onego PROGRAM [--valgrind PROGRAM]

  --only NAME         Count one operation
  --update            Store what was counted
  --valgrind PROGRAM  Valgrind [default: valgrind]
  --onego PROGRAM     Run this onego under valgrind instead, and check that it ends well

Exit status: 0 within the bounds, 1 outside, 2 if it cannot run.
";

#[derive(Debug)]
struct Arguments {
    only: Option<String>,
    update: bool,
    valgrind: OsString,
    onego: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("counts: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all counts are within their bounds.
fn run() -> Result<bool> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == RUN) {
        let names: Vec<String> = arguments.skip(1).map(|name| name.to_string_lossy().into_owned()).collect();
        return operations::run_side(&names).map(|()| true);
    }
    let Some(arguments) = parse(arguments)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    if let Some(onego) = &arguments.onego {
        return callgrind::run_program(&arguments.valgrind, onego).map(|()| true);
    }
    let is_chosen = |name: &str| arguments.only.as_ref().is_none_or(|only| only == name);
    let chosen: Vec<_> = OPERATIONS.iter().filter(|operation| is_chosen(operation.name)).collect();
    let names = OPERATIONS.map(|operation| operation.name).join(", ");
    ensure!(!chosen.is_empty(), "unknown operation; there are {names}");
    let measured = measure(&arguments.valgrind, &chosen)?;
    let text = std::fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let Counts { tools, rows } = Counts::parse(&text).with_context(|| format!("cannot read {FILE}"))?;
    let (rows, mut others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        rows.into_iter().partition(|((operation, _), _)| is_chosen(operation));
    let is_within = print(&Counts { tools, rows }, &measured, arguments.update);
    if arguments.update {
        others.extend(measured.rows);
        let content = Counts { tools: measured.tools, rows: others }.format();
        std::fs::write(FILE, content).with_context(|| format!("cannot write {FILE}"))?;
    }
    Ok(is_within)
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Arguments>> {
    let mut parsed = Arguments { only: None, update: false, valgrind: "valgrind".into(), onego: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{} takes a value", argument.display()));
        match argument.to_str() {
            Some("--help" | "-h") => return Ok(None),
            Some("--only") => parsed.only = Some(value()?.to_string_lossy().into_owned()),
            Some("--update") => parsed.update = true,
            Some("--valgrind") => parsed.valgrind = value()?,
            Some("--onego") => parsed.onego = Some(value()?.into()),
            _ => bail!("unknown option {}\n\n{USAGE}", argument.display()),
        }
    }
    Ok(Some(parsed))
}

/// Counts both sides of all operations, as many at a time as there are processors.
fn measure(program: &OsStr, operations: &[&CountedOp]) -> Result<Counts> {
    let valgrind = Valgrind::new(program)?;
    let sides =
        operations.iter().flat_map(|operation| operation.sides.iter().map(|(side, _)| (*operation, *side)));
    let (left, rows) = (Mutex::new(sides.collect::<Vec<_>>()), Mutex::new(BTreeMap::new()));
    let next = || left.lock().expect("no worker panics").pop();
    let work = || -> Result<()> {
        while let Some((operation, side)) = next() {
            let cost = valgrind.count(operation, side)?;
            let key: Key = (operation.name.to_owned(), side.to_owned());
            rows.lock().expect("no worker panics").insert(key, cost);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..std::thread::available_parallelism()?.get()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(Counts { tools: tools(program)?, rows: rows.into_inner().expect("no worker panics") })
}

/// The tools that decide how many instructions the same source has.
fn tools(valgrind: &OsStr) -> Result<String> {
    let version = |program: &OsStr| -> Result<String> {
        let output = Command::new(program).arg("--version").output();
        let output = output.with_context(|| format!("cannot run {}", program.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    Ok(format!("{}, {}", version(valgrind)?, version(OsStr::new("rustc"))?))
}

/// Prints the table. Returns whether no row fails; in an update, none does.
fn print(stored: &Counts, measured: &Counts, is_update: bool) -> bool {
    println!("operation        side       stored  measured   change checksums    copies      rest   change");
    let mut failures = Vec::new();
    for ((operation, side), (before, after)) in stored.compare(measured) {
        let number = |of: Option<u64>| of.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let change = |of: fn(Cost) -> u64| match (before.map(of), after.map(of)) {
            (Some(before), Some(after)) => format!("{:+.2}%", (after as f64 / before as f64 - 1.0) * 100.0),
            _ => "-".to_owned(),
        };
        println!(
            "{operation:16} {side:7} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9} {:>8}",
            number(before.map(|cost| cost.total)),
            number(after.map(|cost| cost.total)),
            change(|cost| cost.total),
            number(after.map(|cost| cost.checksums)),
            number(after.map(|cost| cost.copies)),
            number(after.map(Cost::rest)),
            change(Cost::rest),
        );
        failures.extend(failure(before, after).map(|failure| format!("{operation} {side}: {failure}")));
    }
    if is_update || failures.is_empty() {
        return true;
    }
    println!("\n{}", failures.join("\n"));
    if stored.tools != measured.tools {
        println!("counted with {}, stored with {}", measured.tools, stored.tools);
    }
    println!("To accept the new counts, run `cargo counts --update` and give the reason in the commit.");
    false
}
