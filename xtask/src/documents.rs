//! The documents of the project, and the blocks of code in them.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::fs;
use std::process::Command;

/// A document.
pub(crate) struct Document {
    /// Where it is, from the root of the tree.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Every Markdown file of the tree.
pub(crate) fn all(workspace: &Workspace) -> Result<Vec<Document>> {
    let mut list = Command::new("git");
    list.current_dir(&workspace.workspace_root);
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let mut documents = Vec::new();
    for name in sh::text(&mut list)?.lines() {
        let path = workspace.workspace_root.join(name);
        // A file that was removed and not yet committed is still listed.
        if path.exists() {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
            documents.push(Document { name: name.to_owned(), text });
        }
    }
    Ok(documents)
}

impl Document {
    /// Is it for users of the programs and libraries?
    pub(crate) fn is_for_users(&self) -> bool {
        self.name == "README.md" || self.name.starts_with("docs/guide/")
    }

    /// The blocks of code in a language, in their order.
    pub(crate) fn blocks(&self, language: &str) -> Vec<String> {
        let mut blocks = Vec::new();
        let mut block: Option<String> = None;
        for event in Parser::new(&self.text) {
            match (event, &mut block) {
                (Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))), _) if *info == *language => {
                    block = Some(String::new());
                }
                (Event::Text(text), Some(block)) => block.push_str(&text),
                (Event::End(TagEnd::CodeBlock), Some(_)) => blocks.extend(block.take()),
                _ => {}
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_language_are_found() {
        let text =
            "# A\n```rust\nlet a = 1;\nlet b = 2;\n```\n```console\n$ ls\n```\n```rust\nlet c = 3;\n```\n";
        let document = Document { name: "README.md".into(), text: text.into() };
        assert_eq!(document.blocks("rust"), ["let a = 1;\nlet b = 2;\n", "let c = 3;\n"]);
        assert_eq!(document.blocks("console"), ["$ ls\n"]);
    }
}
