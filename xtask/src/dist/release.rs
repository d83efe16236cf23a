//! What the files are called, and when they were made.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::process::Command;

/// The architecture that is built for, as Debian and OCI call it.
pub(super) const ARCHITECTURE: &str = "amd64";

/// What the files are called and dated by.
pub(super) struct Release {
    pub(super) version: String,
    /// Seconds since 1970: the time of the last commit, so that the same sources give the same bytes.
    pub(super) date: u64,
}

impl Release {
    pub(super) fn of(workspace: &Workspace) -> Result<Self> {
        let program = workspace.members().find(|package| package.name == "onego-cli");
        let version = program.context("there is no package onego-cli")?.version.clone();
        let mut git = Command::new("git");
        git.current_dir(&workspace.workspace_root).args(["log", "-1", "--format=%ct"]);
        let date = sh::text(&mut git)?.trim().parse().context("git gives no date")?;
        Ok(Self { version, date })
    }
}
