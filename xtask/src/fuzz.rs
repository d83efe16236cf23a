//! Fuzzing of the decoders, with bounds on time and memory for each input.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

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
}

/// Seconds for each target where tests wait: two minutes for all of them.
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
    run(&Options { target: None, seconds: BRIEFLY, long: false })
}

/// Fuzzes one target or all of them, one after the other.
pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let folder = workspace.workspace_root.join("fuzz");
    if !sh::have("cargo-fuzz") {
        sh::step("installing cargo-fuzz");
        sh::run(sh::cargo().args(["install", "cargo-fuzz", "--locked"]))?;
    }
    let mut targets = targets(&folder)?;
    if let Some(only) = &options.target {
        targets.retain(|target| target == only);
    }
    if targets.is_empty() {
        bail!("there is no such fuzz target; those in fuzz/fuzz_targets are known");
    }
    let seconds = if options.long { 300 } else { options.seconds };
    let mut failed = Vec::new();
    for target in &targets {
        sh::step(&format!("fuzz {target} for {seconds} s"));
        seed(&folder, target)?;
        if let Err(error) = fuzz(&workspace, target, seconds) {
            eprintln!("{error:#}");
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("these targets found something (the input is in fuzz/artifacts): {}", failed.join(", "));
    }
    println!("\n{} targets fuzzed for {seconds} s each, nothing found", targets.len());
    Ok(())
}

/// The names of the targets, which are those of their files, in the folders of `fuzz_targets`.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for room in fs::read_dir(folder.join("fuzz_targets")).context("cannot list the fuzz targets")? {
        for entry in fs::read_dir(room?.path())? {
            let path = entry?.path();
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn fuzz(workspace: &Workspace, target: &str, seconds: u32) -> Result<()> {
    let mut command = workspace.cargo();
    // The sanitizer's flags are unstable in name only: this lets the toolchain of the workspace take them.
    command.env("RUSTC_BOOTSTRAP", "1");
    command.args(["fuzz", "run", target, "--", &format!("-max_total_time={seconds}")]).args(BOUNDS);
    sh::run(&mut command)
}

/// Gives a target its first inputs.
fn seed(folder: &Path, target: &str) -> Result<()> {
    let corpus = folder.join("corpus").join(target);
    fs::create_dir_all(&corpus)?;
    for (_, name, lines) in SEEDS.iter().filter(|(of, ..)| *of == target) {
        let file = corpus.join(name).display().to_string();
        for line in *lines {
            let words: Vec<_> = line.split_whitespace().map(|word| word.replace("FILE", &file)).collect();
            if !sh::have(&words[0]) {
                eprintln!("{target} begins without a real input: this host has no {}", words[0]);
                return Ok(());
            }
            sh::text(Command::new(&words[0]).args(&words[1..]))?;
        }
    }
    Ok(())
}
