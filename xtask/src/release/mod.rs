//! The release checklist as a command.
//!
//! Every step is a check that changes nothing outside `target`; all run even when one fails. What is left to a person is to
//! set the tag and to publish, which the end says.

mod crates;
mod notes;

use crate::workspace::Workspace;
use crate::{dist, reference, sh};
use anyhow::{Result, bail, ensure};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Check everything, and publish nothing
    #[arg(long, required = true)]
    dry_run: bool,
    /// Leave out steps with one of these in their name
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
}

type ReleaseStep = (&'static str, fn(&Workspace) -> Result<()>);

/// The quick ones first.
const STEPS: &[ReleaseStep] = &[
    ("clean tree", clean_tree),
    ("one version", crates::one_version),
    ("descriptions", crates::descriptions),
    ("changelog", notes::changelog),
    ("reference", reference::check),
    ("packages of crates", crates::packages),
    ("files for users", files),
];

pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let is_wanted = |step: &&ReleaseStep| !options.without.iter().any(|name| step.0.contains(name.as_str()));
    let mut failed = Vec::new();
    for (name, step) in STEPS.iter().filter(is_wanted) {
        sh::step(name);
        match step(&workspace) {
            Ok(()) => eprintln!("{name}: ok"),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                failed.push(*name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("not ready for a release: {}", failed.join(", "));
    }
    let version = crates::version(&workspace)?;
    println!("\nready: git tag v{version}, then cargo publish for these, in order:");
    crates::in_order(&workspace)?.iter().for_each(|package| println!("  {}", package.name));
    Ok(())
}

/// What is released is what is committed.
fn clean_tree(workspace: &Workspace) -> Result<()> {
    let mut status = Command::new("git");
    status.current_dir(&workspace.workspace_root).args(["status", "--porcelain"]);
    let changed = sh::text(&mut status)?;
    ensure!(changed.is_empty(), "these are not committed:\n{changed}");
    Ok(())
}

/// What users install is made.
fn files(workspace: &Workspace) -> Result<()> {
    let program = dist::program(workspace, None)?;
    dist::pack(workspace, &program, &workspace.target_directory.join("dist-files")).map(drop)
}
