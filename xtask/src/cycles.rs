//! Cycles between the top-level modules of a crate below `crates/`.
//!
//! A top-level module with everything below it is one node, the root file another. Every path that names another node
//! (`crate::`, `super::`, or a module's name in the root file) is an edge. Tests and the arguments of macros are ignored.

use crate::workspace::{Workspace, verdict};
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

/// Dependencies by node, each with the first module that has it. The root file is the node `crate`.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    let crates = workspace.root.join("crates");
    for package in
        workspace.members().into_iter().filter(|package| package.manifest_path.starts_with(&crates))
    {
        let source = package.manifest_path.with_file_name("src").into_std_path_buf();
        let roots = ["lib.rs", "main.rs"].map(|name| source.join(name));
        let Some(root) = roots.iter().find(|path| path.is_file()) else { continue };
        let mut graph = Graph::new();
        read(root, &source, &[], &mut graph)?;
        offences.extend(cyclic(&graph).iter().map(|edge| format!("{}: {edge}", package.name)));
    }
    verdict(&offences)
}

/// Reads the module `path` and its children, which lie in `folder`.
fn read(file: &Path, folder: &Path, path: &[String], graph: &mut Graph) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let children = parse(&text, path, graph).with_context(|| format!("cannot parse {}", file.display()))?;
    for child in children {
        let (plain, below) = (folder.join(format!("{child}.rs")), folder.join(&child));
        let file = if plain.is_file() { plain } else { below.join("mod.rs") };
        read(&file, &below, &[path, &[child]].concat(), graph)?;
    }
    Ok(())
}

/// Adds the edges of one file to the graph. Returns the child modules in other files.
fn parse(text: &str, path: &[String], graph: &mut Graph) -> syn::Result<Vec<String>> {
    let file = syn::parse_file(text)?;
    graph.entry(path.first().map_or("crate", String::as_str).to_owned()).or_default();
    let mut visitor = Visitor { module: path.to_vec(), children: Vec::new(), graph };
    visitor.visit_file(&file);
    Ok(visitor.children)
}

struct Visitor<'a> {
    module: Vec<String>,
    children: Vec<String>,
    graph: &'a mut Graph,
}

impl Visitor<'_> {
    fn add_path(&mut self, segments: &[String]) {
        let supers = segments.iter().take_while(|segment| *segment == "super").count();
        let rest = match segments.first().map(String::as_str) {
            Some("crate") => &segments[1..],
            Some("super") if supers >= self.module.len() => &segments[supers..],
            Some("super") => return,
            // In the root file this may name a module; elsewhere it stays inside of one.
            _ if self.module.is_empty() => &segments[usize::from(segments[0] == "self")..],
            _ => return,
        };
        let to = rest.first().map_or("crate", String::as_str);
        let from = self.module.first().map_or("crate", String::as_str);
        if to != from {
            let edges = self.graph.entry(from.to_owned()).or_default();
            edges.entry(to.to_owned()).or_insert_with(|| self.module.join("::"));
        }
    }

    fn add_use(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let join = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&join(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add_path(&join(&name.ident)),
            syn::UseTree::Rename(name) => self.add_path(&join(&name.ident)),
            syn::UseTree::Glob(_) => self.add_path(prefix),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(prefix, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs[..],
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => &[],
        };
        let is_test = |attribute: &syn::Attribute| {
            let list = attribute.meta.require_list();
            attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
        };
        if !attributes.iter().any(is_test) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        match &module.content {
            None => self.children.push(name),
            Some((_, items)) => {
                self.module.push(name);
                items.iter().for_each(|item| self.visit_item(item));
                self.module.pop();
            }
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_use(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.add_path(&segments);
        }
        visit::visit_path(self, path);
    }

    /// Skips `pub(in path)`, which is no dependency.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Returns the edges that are part of cycles.
fn cyclic(graph: &Graph) -> Vec<String> {
    // Names that are no modules belong to items of the root file.
    let node = |name| if graph.contains_key(name) { name } else { "crate" };
    let mut edges = Vec::new();
    for (from, targets) in graph {
        edges.extend(targets.iter().map(|(to, module)| (from.as_str(), node(to.as_str()), module)));
    }
    edges.retain(|(from, to, _)| from != to);
    let reaches = |from, to| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(node) = left.pop() {
            let targets = edges.iter().filter(|(from, ..)| *from == node).map(|(_, to, _)| *to);
            left.extend(targets.filter(|to| seen.insert(*to)));
        }
        seen.contains(to)
    };
    let cyclic = edges.iter().filter(|(from, to, _)| reaches(*to, *from));
    cyclic.map(|(from, to, module)| format!("{from} -> {to} (in crate::{module})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut graph = Graph::new();
        for (path, text) in files {
            let path: Vec<_> = path.split_terminator("::").map(str::to_owned).collect();
            parse(text, &path, &mut graph).unwrap();
        }
        cyclic(&graph)
    }

    #[test]
    fn cycles_are_found_in_every_spelling() {
        let uses =
            ["use super::a::B;", "fn f() -> crate::a::B {}", "use crate::{a, c};", "pub use super::a::*;"];
        for text in uses {
            let edges = found(&[("a", "use crate::b::{self, Thing};"), ("b", text)]);
            assert_eq!(edges, ["a -> b (in crate::a)", "b -> a (in crate::b)"], "{text}");
        }
        let inner = [("a::x", "use super::super::b::B;"), ("b", "mod i { use super::super::a::y; }")];
        assert_eq!(found(&inner).len(), 2);
        assert_eq!(
            found(&[("", "mod x; pub use x::Y;"), ("x", "use crate::Y;")]).len(),
            2,
            "facade and part"
        );
    }

    #[test]
    fn one_direction_and_tests_are_no_cycle() {
        let a = "pub(in crate::b) fn f() {} use super::b::B; use std::fmt; mod inner { use super::Local; }";
        let b = "mod x; pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
        let root = "mod a; mod b; pub use a::A;";
        assert_eq!(found(&[("", root), ("a", a), ("b", b), ("b::x", "use super::y;")]), [""; 0]);
    }
}
