//! Fuzzing of the decoders, with bounds on time and memory for each input.

mod corpus;

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fuzz this one only
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Five minutes for each target
    #[arg(long, conflicts_with = "seconds")]
    long: bool,
    /// Fuzz nothing: minimise the corpora and pack them into fuzz/corpora, which is in git
    #[arg(long, conflicts_with_all = ["seconds", "long"])]
    keep: bool,
    /// Build programs that are compiled sooner and run slower: pays where each runs for seconds
    #[arg(long, conflicts_with = "keep")]
    quick_build: bool,
}

/// A fuzz target.
struct Target {
    /// Its folder in `fuzz_targets`.
    room: String,
    name: String,
}

impl Target {
    /// Where its inputs are, those of this machine included.
    fn corpus(&self, folder: &Path) -> PathBuf {
        folder.join("corpus").join(&self.name)
    }

    /// What the tree keeps of them.
    fn archive(&self, folder: &Path) -> PathBuf {
        folder.join("corpora").join(&self.room).join(format!("{}.tar.zst", self.name))
    }
}

/// How `cargo fuzz` is run.
#[derive(Clone, Copy)]
struct Fuzzer<'a> {
    workspace: &'a Workspace,
    quick_build: bool,
}

impl Fuzzer<'_> {
    /// The command that fuzzes a target for that time.
    fn fuzz(self, target: &str, seconds: u32) -> Command {
        let mut command = self.command(&["run", target, "--"]);
        command.arg(format!("-max_total_time={seconds}")).args(BOUNDS);
        command
    }

    fn command(self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.cargo();
        if self.quick_build {
            command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        }
        // The sanitizer's flags are unstable in name only: this lets the toolchain of the workspace take them.
        command.env("RUSTC_BOOTSTRAP", "1").arg("fuzz").args(arguments);
        command
    }
}

/// Seconds for each target where tests wait: a minute or two for all of them.
const BRIEFLY: u32 = 5;

/// libFuzzer's bounds. No decoder may take more than a few times its input: an input that makes one allocation of
/// this size, or stays in the decoder for so long, is a finding.
const BOUNDS: &[&str] = &["-max_len=65536", "-malloc_limit_mb=64", "-rss_limit_mb=1024", "-timeout=10"];

/// Inputs to begin with, made by Ceph's own programs where the host has them: the file in the target's corpus, and
/// the lines that make it.
const SEEDS: &[(&str, &str, &[&str])] = &[
    ("osdmap", "simple", &["osdmaptool --createsimple 4 FILE --with-default-pool --pg-bits 3 --clobber"]),
    (
        "crush",
        "simple",
        &[
            "osdmaptool --createsimple 4 FILE.osdmap --with-default-pool --clobber",
            "osdmaptool FILE.osdmap --export-crush FILE",
            "rm FILE.osdmap",
        ],
    ),
    (
        "monmap",
        "three",
        &["monmaptool --create --clobber --addv a [v2:10.0.0.1:3300,v1:10.0.0.1:6789] \
             --add b 10.0.0.2 --add c 10.0.0.3 FILE"],
    ),
];

/// Fuzzes every target for a few seconds, which finds what a change has broken.
pub(crate) fn briefly() -> Result<()> {
    run(&Options { target: None, seconds: BRIEFLY, long: false, keep: false, quick_build: true })
}

/// Fuzzes one target or all of them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let folder = workspace.workspace_root.join("fuzz");
    if !sh::have("cargo-fuzz") {
        sh::step("installing cargo-fuzz");
        // It is built in less than half the time than if it were to be quick itself.
        sh::run(sh::cargo().args(["install", "cargo-fuzz", "--locked", "--debug"]))?;
    }
    let mut targets = targets(&folder)?;
    if let Some(only) = &options.target {
        targets.retain(|target| target.name == *only);
    }
    if targets.is_empty() {
        bail!("there is no such fuzz target; those in fuzz/fuzz_targets are known");
    }
    let fuzzer = Fuzzer { workspace: &workspace, quick_build: options.quick_build };
    if options.keep {
        return keep(fuzzer, &folder, &targets);
    }
    let seconds = if options.long { 300 } else { options.seconds };
    for target in &targets {
        first_inputs(&folder, target)?;
    }
    let failed = match &targets[..] {
        [only] => sh::run(&mut fuzzer.fuzz(&only.name, seconds)).map_err(|error| vec![error]),
        _ => fuzz_all(fuzzer, &targets, seconds),
    };
    match failed {
        Ok(()) => println!("\n{} targets fuzzed for {seconds} s each, nothing found", targets.len()),
        Err(failed) => {
            let failed: Vec<_> = failed.iter().map(|error| format!("{error:#}")).collect();
            bail!("these found something (the input is in fuzz/artifacts):\n{}", failed.join("\n"));
        }
    }
    Ok(())
}

/// Fuzzes these targets, as many at a time as there are processors: each keeps one busy.
fn fuzz_all(fuzzer: Fuzzer<'_>, targets: &[Target], seconds: u32) -> Result<(), Vec<anyhow::Error>> {
    sh::run(&mut fuzzer.command(&["build"])).map_err(|error| vec![error])?;
    let left = Mutex::new(targets.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    match sh::said(&mut fuzzer.fuzz(&target.name, seconds)) {
                        Ok(said) => {
                            let last = said.lines().last().unwrap_or_default();
                            eprintln!("fuzz {}: {last}", target.name);
                        }
                        Err(error) => failed.lock().unwrap_or_else(PoisonError::into_inner).push(error),
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        failed if failed.is_empty() => Ok(()),
        failed => Err(failed),
    }
}

/// The targets, whose names are those of their files, in the folders of `fuzz_targets`.
fn targets(folder: &Path) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for room in fs::read_dir(folder.join("fuzz_targets")).context("cannot list the fuzz targets")? {
        let room = room?;
        for entry in fs::read_dir(room.path())? {
            let path = entry?.path();
            targets.extend(path.file_stem().map(|name| Target {
                room: room.file_name().to_string_lossy().into_owned(),
                name: name.to_string_lossy().into_owned(),
            }));
        }
    }
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(targets)
}

/// Minimises the corpora, together with what is kept of them, and packs them again.
fn keep(fuzzer: Fuzzer<'_>, folder: &Path, targets: &[Target]) -> Result<()> {
    for target in targets {
        sh::step(&format!("minimise the corpus of {}", target.name));
        first_inputs(folder, target)?;
        sh::run(fuzzer.command(&["cmin", &target.name, "--"]).args(BOUNDS))?;
        let packed = corpus::pack(&target.corpus(folder), &target.archive(folder))?;
        let corpus::Packed { kept, left_out, bytes } = packed;
        println!("{}: {kept} inputs kept in {bytes} bytes, {left_out} too large for them", target.name);
    }
    Ok(())
}

/// Gives a target its first inputs: those that the tree keeps, and those that Ceph's programs make.
fn first_inputs(folder: &Path, target: &Target) -> Result<()> {
    let corpus = target.corpus(folder);
    corpus::unpack(&target.archive(folder), &corpus)?;
    for (_, name, lines) in SEEDS.iter().filter(|(of, ..)| *of == target.name) {
        let file = corpus.join(name).display().to_string();
        for line in *lines {
            let words: Vec<_> = line.split_whitespace().map(|word| word.replace("FILE", &file)).collect();
            if !sh::have(&words[0]) {
                eprintln!("{} begins without a real input: this host has no {}", target.name, words[0]);
                return Ok(());
            }
            sh::text(Command::new(&words[0]).args(&words[1..]))?;
        }
    }
    Ok(())
}
