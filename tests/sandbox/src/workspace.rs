//! The workspace that is tested, and its programs.

use crate::sh;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the root of the workspace.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns a cargo command that runs at the root of the workspace.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Returns cargo's target folder.
pub fn target() -> Result<&'static Path> {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    if let Some(target) = TARGET.get() {
        return Ok(target);
    }
    let said = sh::bytes(cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&said)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    std::fs::create_dir_all(target)?;
    Ok(TARGET.get_or_init(|| PathBuf::from(target)))
}

/// Returns the program `onego`: `ONEGO_PROGRAM`, or the tree's, built as cargo's tests build it.
///
/// That build is nearly as fast as a release and checks itself more; a release build would take as long again.
pub fn onego() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("ONEGO_PROGRAM") {
        let program = PathBuf::from(program);
        return program
            .canonicalize()
            .with_context(|| format!("ONEGO_PROGRAM: no file {}", program.display()));
    }
    let features = ["--workspace", "--bin=onego", "--features=onego-cli/rdma-core"];
    sh::run(cargo().args(["build", "--profile=test"]).args(features))?;
    Ok(target()?.join("debug/onego"))
}

/// Returns whether the tests take their long form: more seeds, longer loads (`ONEGO_TEST_LONG`).
pub fn is_long() -> bool {
    std::env::var_os("ONEGO_TEST_LONG").is_some()
}
