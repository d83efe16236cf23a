//! Links of the documents: each leads to a file of the tree, and to a heading of it if it names one.

use super::verdict::verdict;
use crate::documents::{self, Document};
use crate::workspace::Workspace;
use anyhow::Result;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Checks every tracked Markdown file.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    for Document { name, text } in documents::all(workspace)? {
        let path = workspace.workspace_root.join(&name);
        let dead = links(&text).into_iter().filter_map(|link| why_dead(&path, &text, &link));
        offences.extend(dead.map(|why| format!("{name}: {why}")));
    }
    verdict(&offences)
}

/// Targets of links and pictures, those of other hosts left out: a test does not depend on them.
fn links(text: &str) -> Vec<String> {
    let target = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    Parser::new(text).filter_map(target).filter(|link| !link.contains("://")).collect()
}

/// Why a link of the document at `path` leads nowhere, if it does not.
fn why_dead(path: &Path, text: &str, link: &str) -> Option<String> {
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let target = path.parent()?.join(file);
    if !file.is_empty() && !target.exists() {
        return Some(format!("`{link}`: there is no such file"));
    }
    let heading = heading?;
    let there = match file {
        "" => anchors(text),
        _ => anchors(&fs::read_to_string(target).unwrap_or_default()),
    };
    (!there.contains(heading)).then(|| format!("`{link}`: there is no such heading"))
}

/// What headings are called in links, as forges make it: lower case, spaces as hyphens, punctuation left out.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::End(TagEnd::Heading(_)), Some(words)) => {
                anchors.insert(slug(words));
                heading = None;
            }
            (Event::Text(text) | Event::Code(text), Some(words)) => words.push_str(&text),
            _ => {}
        }
    }
    anchors
}

fn slug(words: &str) -> String {
    let kept = words.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# One page, two `words`\n[a](#one-page-two-words) [b](#two) [c](none.md) [d](https://x.y/none)\n\
                        ```\n[e](code.md)\n```\n";

    #[test]
    fn dead_links_are_found_and_others_are_not() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("page.md");
        let dead: Vec<_> = links(TEXT).iter().filter_map(|link| why_dead(&path, TEXT, link)).collect();
        assert_eq!(dead, ["`#two`: there is no such heading", "`none.md`: there is no such file"]);
    }

    #[test]
    fn a_link_to_a_file_of_the_tree_is_alive() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("page.md");
        assert_eq!(why_dead(&path, "", "Cargo.toml"), None);
    }
}
