//! Licences, sources, duplicates and known vulnerabilities of what we depend on.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;

/// Runs cargo-deny. Advisories need a database from the network: where that cannot be had, the check says so and
/// judges the rest.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    if !sh::have("cargo-deny") {
        sh::step("installing cargo-deny");
        // It is built in less than half the time than if it were to be quick itself.
        sh::run(sh::cargo().args(["install", "cargo-deny", "--locked", "--debug"]))?;
    }
    let deny = |arguments: &[&str]| {
        let mut command = workspace.cargo();
        command.args(["deny", "--log-level", "error", "--all-features"]).args(arguments);
        command
    };
    sh::run(&mut deny(&["check", "licenses", "bans", "sources"]))?;
    if sh::output(&mut deny(&["fetch", "db"]))?.status.success() {
        sh::run(&mut deny(&["check", "--disable-fetch", "advisories"]))
    } else {
        eprintln!("advisories: NOT CHECKED, the advisory database cannot be reached from here");
        Ok(())
    }
}
