//! Ceph's `rbd` on our embedded cluster says and does what it does on a real one.

use super::old_format;
use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// What users do with images, snapshots, clones, groups, and so on.
const SCRIPT: &str = include_str!("commands.sh");

/// Commands that must have been run at least: with fewer the script has said nothing.
const MIN_COMMANDS: usize = 250;

/// The same commands on both clusters, and the same answers.
pub(crate) fn as_on_ceph(stage: &Stage) -> Result<()> {
    let expected = {
        let _ceph = RealCeph::start(stage, Store::Memory)?;
        stage.ceph("ceph osd set-require-min-compat-client mimic")?;
        both(stage)?
    };
    stage.empty()?;
    let said = {
        let _cluster = Embedded::start(stage, "")?;
        both(stage)?
    };
    fs::write(stage.path("on-ceph.out"), &expected)?;
    fs::write(stage.path("on-ours.out"), &said)?;
    let commands = expected.lines().filter(|line| line.starts_with("$ ")).count();
    ensure!(commands >= MIN_COMMANDS, "only {commands} commands were run");
    compare(&expected, &said)
}

/// What the script prints, where both sides have each other's images of format 1, too.
fn both(stage: &Stage) -> Result<String> {
    let said = answers(stage)?;
    old_format::shared(stage)?;
    Ok(said)
}

/// What the script prints.
fn answers(stage: &Stage) -> Result<String> {
    fs::write(stage.path("commands.sh"), SCRIPT)?;
    for pool in ["rbd", "data"] {
        if !stage.ceph("ceph osd pool ls")?.lines().any(|name| name == pool) {
            stage.ceph(&format!("ceph osd pool create {pool} 8"))?;
        }
        stage.ceph(&format!("ceph osd pool application enable {pool} rbd"))?;
    }
    let output = sh::output(&mut stage.ceph_command("sh commands.sh"))?;
    ensure!(
        output.status.success(),
        "the script ended with {}:\n{}",
        output.status,
        sh::tail(&output.stderr)
    );
    String::from_utf8(output.stdout).context("the script did not print UTF-8")
}

/// An error that names each command whose answer differs.
fn compare(expected: &str, said: &str) -> Result<()> {
    let differing: Vec<_> =
        blocks(expected).zip(blocks(said)).filter(|(expected, said)| expected != said).collect();
    let shown: String = differing
        .iter()
        .map(|(expected, said)| format!("on Ceph:\n{expected}\non ours:\n{said}\n"))
        .collect();
    ensure!(differing.is_empty(), "{} answers differ (on-ceph.out, on-ours.out):\n{shown}", differing.len());
    ensure!(blocks(expected).count() == blocks(said).count(), "commands are missing");
    Ok(())
}

/// Commands with their answers.
fn blocks(said: &str) -> impl Iterator<Item = &str> {
    said.split("\n$ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_differs_is_named_with_its_command() {
        let expected = "# Pools\n$ rbd ls\none\n$ rbd info one\nsize 8\n";
        assert!(compare(expected, expected).is_ok());
        let error = compare(expected, &expected.replace('8', "9")).unwrap_err().to_string();
        assert!(error.contains("rbd info one\nsize 8") && error.contains("size 9"));
        assert!(!error.contains("rbd ls"));
        assert!(compare(expected, "# Pools\n$ rbd ls\none").is_err());
    }
}
