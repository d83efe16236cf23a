//! The release checklist. Setting the tag and publishing are left to a person.

use crate::workspace::{Workspace, verdict};
use crate::{dist, workspace};
use anyhow::{Result, ensure};
use std::fs;
use xshell::cmd;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Check everything and publish nothing
    #[arg(long, required = true)]
    dry_run: bool,
    /// Skip steps with this word in their names
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
}

/// Quick steps first.
const STEPS: &[workspace::Step] = &[
    ("clean tree", Workspace::ensure_committed),
    ("versions", versions),
    ("changelog", |workspace| {
        let version = workspace.member("onego")?.version.to_string();
        check_changelog(&fs::read_to_string(workspace.root.join("CHANGELOG.md"))?, &version)
    }),
    ("reference", |workspace| {
        write_reference(workspace)?;
        Ok(cmd!(workspace.sh, "git diff --exit-code --stat -- docs/reference").run()?)
    }),
    ("crates", |Workspace { sh, .. }| Ok(cmd!(sh, "cargo publish --workspace --dry-run --locked").run()?)),
    ("dist", |workspace| dist::run(workspace, &dist::Options::default())),
];

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let is_skipped = |name: &str| options.without.iter().any(|word| name.contains(word.as_str()));
    let failed = workspace.run_steps(STEPS.iter().filter(|(name, _)| !is_skipped(name)));
    ensure!(failed.is_empty(), "not ready for a release: {}", failed.join(", "));
    println!("\nready: git tag v{}, then cargo publish --workspace", workspace.member("onego")?.version);
    Ok(())
}

/// Writes docs/reference from the definitions of the command line.
pub(crate) fn write_reference(Workspace { sh, .. }: &Workspace) -> Result<()> {
    Ok(cmd!(sh, "cargo run --quiet --package onego-cli --bin onego -- reference docs/reference").run()?)
}

/// Checks that all crates have and require one version, and the metadata for crates.io and docs.rs.
fn versions(workspace: &Workspace) -> Result<()> {
    let version = &workspace.member("onego")?.version;
    let members = workspace.members();
    let mut offences = Vec::new();
    for package in members.iter().filter(|package| package.publish.is_none()) {
        if package.version != *version {
            offences.push(format!("{} has version {}, not {version}", package.name, package.version));
        }
        for dependency in &package.dependencies {
            let (name, required) = (&dependency.name, dependency.req.to_string());
            let is_ours = members.iter().any(|member| member.name == *name);
            if is_ours && required != "*" && required != format!("^{version}") {
                offences.push(format!("{} requires {name} {required}, not ^{version}", package.name));
            }
        }
        let texts = [&package.description, &package.license, &package.repository];
        if texts.contains(&&None) || package.metadata["docs"]["rs"].is_null() {
            offences
                .push(format!("{} lacks description, license, repository or metadata.docs.rs", package.name));
        }
    }
    verdict(&offences)
}

/// Checks that the changelog has entries for `version` and none that are unreleased.
fn check_changelog(text: &str, version: &str) -> Result<()> {
    let entries = |section: &str| {
        // A date may follow the version.
        let is_heading = |line: &&str| {
            line.strip_prefix("## ").is_some_and(|rest| rest.split(' ').next() == Some(section))
        };
        let lines = text.lines().skip_while(|line| !is_heading(line)).skip(1);
        lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("- ")).count()
    };
    ensure!(entries(version) > 0, "CHANGELOG.md has no entries below `## {version}`");
    ensure!(
        entries("Unreleased") == 0,
        "CHANGELOG.md has entries below `## Unreleased`: move them to `## {version}`"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_needs_entries_and_nothing_unreleased() {
        assert!(check_changelog("## Unreleased\n\n## 1.2.3 (2026-01-01)\n\n- It works.\n", "1.2.3").is_ok());
        assert!(check_changelog("## 1.2.3\n\n## 1.2.2\n- It works.\n", "1.2.3").is_err());
        assert!(check_changelog("## 1.2.30\n- It works.\n", "1.2.3").is_err());
        assert!(check_changelog("## Unreleased\n- More.\n## 1.2.3\n- It works.\n", "1.2.3").is_err());
    }
}
