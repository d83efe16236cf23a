//! Whether the version says what has changed of the API since the last release.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// The one crate whose API is promised (docs/versions.md).
const PROMISED: &str = "onego";

/// Compares the API with that of the last release by cargo-semver-checks. Before the first release there is nothing to keep, and the
/// check says so.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let Some(release) = last_release(workspace)? else {
        eprintln!("no release yet: there is no API to compare with");
        return Ok(());
    };
    if !sh::have("cargo-semver-checks") {
        sh::step("installing cargo-semver-checks");
        sh::run(sh::cargo().args(["install", "cargo-semver-checks", "--locked", "--debug"]))?;
    }
    let arguments = ["semver-checks", "--package", PROMISED, "--baseline-rev", &release];
    sh::run(workspace.cargo().args(arguments))
}

/// The newest release that this commit comes after, or is. A tree without its history has none.
fn last_release(workspace: &Workspace) -> Result<Option<String>> {
    let mut describe = Command::new("git");
    describe.current_dir(&workspace.workspace_root);
    describe.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]);
    let output = sh::output(&mut describe)?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(tag))
}
