//! Programs in documents for users: each stands, word for word, in an example that a scenario runs.

use super::verdict::verdict;
use crate::documents;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;

/// The example, from the root of the tree.
const EXAMPLE: &str = "crates/client/examples/guides.rs";

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let path = workspace.workspace_root.join(EXAMPLE);
    let example = words(&fs::read_to_string(path).with_context(|| format!("cannot read {EXAMPLE}"))?);
    let mut offences = Vec::new();
    for document in documents::all(workspace)?.iter().filter(|document| document.is_for_users()) {
        for block in document.blocks("rust") {
            if !example.contains(&words(&block)) {
                let first = block.lines().next().unwrap_or_default();
                offences.push(format!("{}: `{first}`... does not stand in {EXAMPLE}", document.name));
            }
        }
    }
    verdict(&offences)
}

/// A text without its blanks: where lines break does not matter.
fn words(text: &str) -> String {
    text.split_whitespace().collect()
}
