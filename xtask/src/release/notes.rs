//! What users are told of a version.

use super::crates;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// The change log has a section for the version, with entries, and nothing that belongs to no version.
pub(super) fn changelog(workspace: &Workspace) -> Result<()> {
    let text = fs::read_to_string(workspace.workspace_root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    check(&text, &crates::version(workspace)?)
}

fn check(text: &str, version: &str) -> Result<()> {
    let entries = |heading: &str| {
        let lines = text.lines().skip_while(|line| !is_heading_of(line, heading));
        let count =
            lines.skip(1).take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("- "));
        count.count()
    };
    ensure!(entries(version) > 0, "CHANGELOG.md has no entries under `## {version}`");
    ensure!(
        entries("Unreleased") == 0,
        "CHANGELOG.md has entries under `## Unreleased`: they belong to `## {version}`"
    );
    Ok(())
}

/// Is it the heading of that section? A date may follow.
fn is_heading_of(line: &str, name: &str) -> bool {
    line.strip_prefix("## ").and_then(|heading| heading.split_whitespace().next()) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_entries_and_nothing_is_left_unreleased() {
        assert!(check("## Unreleased\n\n## 1.2.3 (2026-01-01)\n\n- It works.\n", "1.2.3").is_ok());
        assert!(check("## 1.2.3\n- It works.\n", "1.2.3").is_ok());
        assert!(check("## 1.2.3\n\n## 1.2.2\n- It works.\n", "1.2.3").is_err());
        assert!(check("## 1.2.30\n- It works.\n", "1.2.3").is_err());
        assert!(check("## Unreleased\n- More.\n## 1.2.3\n- It works.\n", "1.2.3").is_err());
    }
}
