//! Code blocks of the documents for users.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns README and the guides, each with its text.
pub(crate) fn for_users(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut left = vec![root.join("README.md"), root.join("docs/guide")];
    let mut documents = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            documents.push((path, text));
        }
    }
    documents.sort();
    Ok(documents)
}

/// Returns the fenced code blocks in `language`.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == fence) {
        let block = lines.by_ref().take_while(|line| *line != "```");
        blocks.push(block.map(|line| format!("{line}\n")).collect());
    }
    blocks
}

/// Returns the lines outside of fenced code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_language_are_found() {
        let text =
            "# A\n```rust\nlet a = 1;\nlet b = 2;\n```\nB\n```console\n$ ls\n```\n```rust\nlet c = 3;\n```\n";
        assert_eq!(blocks(text, "rust"), ["let a = 1;\nlet b = 2;\n", "let c = 3;\n"]);
        assert_eq!(blocks(text, "console"), ["$ ls\n"]);
        assert_eq!(prose(text).collect::<Vec<_>>(), ["# A", "B"]);
    }
}
