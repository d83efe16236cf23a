//! The checks that need no running program: one list, each named, all run even when one fails.

mod blocks;
mod circles;
mod deny;
mod dependencies;
mod links;
mod policy;
mod rooms;
mod semver;
mod tidy;
mod verdict;

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Result, bail};

type Check = (&'static str, fn(&Workspace) -> Result<()>);

/// The check that fuzzing makes, too.
const FUZZ_TARGETS: &str = "fuzz targets";

const CHECKS: &[Check] = &[
    ("format", format),
    ("tidiness", tidy::check),
    ("rooms and names", rooms::check),
    ("links of documents", links::check),
    ("programs in documents", blocks::check),
    ("dependency direction", dependencies::check),
    ("circles of modules", circles::check),
    ("unsafe policy", policy::check),
    ("clippy", clippy),
    (FUZZ_TARGETS, fuzz_targets),
    ("rustdoc", rustdoc),
    ("cargo-deny", deny::check),
    ("API since the release", semver::check),
];

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Only checks with one of these in their name
    names: Vec<String>,
}

/// Runs every check but that of the fuzz targets, which are built to be run next.
pub(crate) fn before_fuzzing() -> Result<()> {
    run_those(|name| name != FUZZ_TARGETS)
}

/// Runs the checks that the options name.
pub(crate) fn run(options: &Options) -> Result<()> {
    run_those(|name| {
        options.names.is_empty() || options.names.iter().any(|word| name.contains(word.as_str()))
    })
}

/// Runs checks, even after one has failed, and says which failed and why.
fn run_those(is_meant: impl Fn(&str) -> bool) -> Result<()> {
    let workspace = Workspace::load()?;
    let mut failed = Vec::new();
    for (name, check) in CHECKS.iter().filter(|(name, _)| is_meant(name)) {
        sh::step(name);
        match check(&workspace) {
            Ok(()) => eprintln!("{name}: ok"),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                failed.push(format!("{name}: {error:#}"));
            }
        }
    }
    if !failed.is_empty() {
        bail!("lint failed\n{}", failed.join("\n"));
    }
    Ok(())
}

fn format(workspace: &Workspace) -> Result<()> {
    sh::run(workspace.cargo().args(["fmt", "--all", "--check"]))?;
    let fuzz = workspace.workspace_root.join("fuzz/Cargo.toml");
    sh::run(workspace.cargo().args(["fmt", "--check", "--manifest-path"]).arg(fuzz))
}

fn clippy(workspace: &Workspace) -> Result<()> {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    sh::run(workspace.cargo().args(arguments))
}

/// They are a workspace of their own, and are not built with the tests.
fn fuzz_targets(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command
        .args(["check", "--quiet", "--manifest-path"])
        .arg(workspace.workspace_root.join("fuzz/Cargo.toml"));
    sh::run(command.arg("--target-dir").arg(&workspace.target_directory))
}

fn rustdoc(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    sh::run(&mut command)
}
