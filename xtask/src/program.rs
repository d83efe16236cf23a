//! The program that is tested and measured.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// The `onego` program: the one that was asked for, or this tree's, built as users get it.
pub(crate) fn find_onego(workspace: &Workspace, program: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = program {
        return program.canonicalize().with_context(|| format!("there is no program {}", program.display()));
    }
    sh::step("building onego");
    sh::run(workspace.cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "onego-cli",
        "--features",
        "rdma-core",
    ]))?;
    Ok(workspace.target_directory.join("release/onego"))
}

/// The least that a server of NBD can be, which others are measured beside.
pub(crate) fn build_bare_nbd(workspace: &Workspace) -> Result<PathBuf> {
    sh::step("building the bare server of NBD");
    let what = ["build", "--quiet", "--release", "--package", "onego-export", "--example", "nbd_bare"];
    sh::run(workspace.cargo().args(what))?;
    Ok(workspace.target_directory.join("release/examples/nbd_bare"))
}
