//! Rooms that are not crowded, and names that lead to one place: files of a folder, and types of one name.

use super::verdict::verdict;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use syn::visit::{self, Visit};

/// A folder with more files is two rooms.
const MAX_FILES: usize = 16;
/// A name that more types have says nothing any more.
const MAX_TYPES: usize = 6;
/// Names that every crate and every command may have.
const COMMON: &[&str] = &["Error", "Config", "Options"];

/// Counts the files of each folder, and the definitions of each name of a type.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(&workspace.workspace_root);
    list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
    let mut types: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let names = sh::text(&mut list)?;
    for name in names.lines() {
        let path = workspace.workspace_root.join(name);
        // A file that was removed and not yet committed is still listed.
        if !path.exists() {
            continue;
        }
        *folders.entry(Path::new(name).parent().unwrap_or(Path::new(""))).or_default() += 1;
        if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
            for defined in definitions(&text).with_context(|| format!("cannot parse {name}"))? {
                types.entry(defined).or_default().push(name);
            }
        }
    }
    let crowded = folders.iter().filter(|(_, files)| **files > MAX_FILES);
    let mut offences: Vec<String> =
        crowded.map(|(folder, files)| format!("{} has {files} files", folder.display())).collect();
    let shared =
        types.iter().filter(|(name, files)| files.len() > MAX_TYPES && !COMMON.contains(&name.as_str()));
    offences.extend(shared.map(|(name, files)| format!("{name} is defined in {}", files.join(", "))));
    verdict(&offences)
}

/// The names of the types that a file defines; those that implementations of traits name are not its own.
fn definitions(text: &str) -> syn::Result<Vec<String>> {
    let mut defined = Definitions::default();
    defined.visit_file(&syn::parse_file(text)?);
    Ok(defined.0)
}

#[derive(Default)]
struct Definitions(Vec<String>);

impl<'ast> Visit<'ast> for Definitions {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        self.0.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_uses_are_not() {
        let text = "use a::Used; struct A; mod m { enum B { C } } impl Deref for A { type Target = B; } \
                    trait D { type E; } type F = Used; fn f() { struct G; }";
        assert_eq!(definitions(text).unwrap(), ["A", "B", "D", "F", "G"]);
    }
}
