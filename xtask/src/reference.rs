//! The reference of commands and of the configuration, which the program writes.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Where it lies, from the root of the tree.
const FOLDER: &str = "docs/reference";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write nothing, and fail if a page is not current
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    if options.check { check(&workspace) } else { write(&workspace, &workspace.workspace_root.join(FOLDER)) }
}

/// Fails if a page is not as the program writes it.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let fresh: PathBuf = workspace.target_directory.join("reference");
    write(workspace, &fresh)?;
    for entry in fs::read_dir(&fresh)? {
        let entry = entry?;
        let there =
            fs::read(workspace.workspace_root.join(FOLDER).join(entry.file_name())).unwrap_or_default();
        let name = entry.file_name();
        ensure!(
            there == fs::read(entry.path())?,
            "{FOLDER}/{} is not current: run `cargo xtask reference`",
            name.display()
        );
    }
    Ok(())
}

fn write(workspace: &Workspace, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--package", "onego-cli", "--bin", "onego", "--", "reference"]);
    sh::run(command.arg(folder))
}
