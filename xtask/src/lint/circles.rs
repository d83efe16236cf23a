//! No circles between the modules of a crate.
//!
//! The children of a module, each with all below it, and the module's own file are the nodes of one graph; a path from
//! one to another (`crate::`, `super::`, or the name of a child) is an arrow. A module that re-exports its children is
//! above them, so a child that imports from it closes a circle. Tests may import what they like. Paths inside macro
//! calls are not seen.

use super::verdict::verdict;
use crate::workspace::{Package, Workspace};
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

/// The path of a module within its crate; the root's is empty.
type ModulePath = Vec<String>;
/// Each module, and the paths that its file names, from the root of the crate.
type Modules = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

/// Names the circles of all crates.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    for package in workspace.members() {
        let name = package.name.as_str();
        let circles = circles(&modules(package)?);
        offences.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    verdict(&offences)
}

fn modules(package: &Package) -> Result<Modules> {
    let folder = package.folder().join("src");
    let mut modules = Modules::new();
    let root = ["lib.rs", "main.rs"].into_iter().map(|name| folder.join(name)).find(|path| path.is_file());
    read(&root.with_context(|| format!("{} has no root", package.name))?, &folder, Vec::new(), &mut modules)?;
    Ok(modules)
}

/// Reads the module at `path`, whose children lie in `folder`, and those.
fn read(file: &Path, folder: &Path, path: ModulePath, modules: &mut Modules) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (named, children) = look(&text, &path).with_context(|| format!("cannot parse {}", file.display()))?;
    for child in children {
        let below = folder.join(&child);
        let plain = folder.join(format!("{child}.rs"));
        let file = if plain.is_file() { plain } else { below.join("mod.rs") };
        read(&file, &below, [path.as_slice(), &[child]].concat(), modules)?;
    }
    modules.insert(path, named);
    Ok(())
}

/// The paths that the file of a module names, from the root of the crate, and the children that have files.
fn look(text: &str, path: &[String]) -> syn::Result<(BTreeSet<ModulePath>, BTreeSet<String>)> {
    let file = syn::parse_file(text)?;
    let mut look = Look { module: path.to_vec(), ..Look::default() };
    look.names.push(module_names(&file.items));
    look.visit_file(&file);
    Ok((look.named, look.children))
}

/// Finds paths in a file.
#[derive(Default)]
struct Look {
    /// The module that is being looked at: the file's, or one inside it.
    module: ModulePath,
    /// Names of the children of the file's module, and of those that surround the one being looked at.
    names: Vec<BTreeSet<String>>,
    named: BTreeSet<ModulePath>,
    children: BTreeSet<String>,
}

impl Look {
    fn path(&mut self, segments: &[String]) {
        let mut rest = segments;
        let mut from = match segments.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            Some(name) if self.names.last().is_some_and(|names| names.contains(name)) => {
                self.named.insert([self.module.as_slice(), segments].concat());
                return;
            }
            _ => return,
        };
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(from.pop()),
                _ => break,
            }
            rest = behind;
        }
        self.named.insert([from.as_slice(), rest].concat());
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) if name.ident == "self" => self.path(before),
            syn::UseTree::Name(name) => self.path(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.path(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.path(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Look {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        let Some((_, items)) = &module.content else {
            self.children.insert(name);
            return;
        };
        self.module.push(name);
        self.names.push(module_names(items));
        items.iter().for_each(|item| self.visit_item(item));
        self.names.pop();
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }

    /// `pub(in path)` is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn module_names(items: &[syn::Item]) -> BTreeSet<String> {
    let module = |item: &syn::Item| match item {
        syn::Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    };
    items.iter().filter_map(module).collect()
}

/// Is it `#[cfg(test)]`?
fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let of_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(of_test)
    })
}

/// A node of the graph below one module: the module's own file (`None`), or one of its children.
type GraphNode = Option<String>;

/// The circles, each as its modules and one arrow from each of them to another.
fn circles(modules: &Modules) -> Vec<String> {
    let mut graphs: BTreeMap<ModulePath, BTreeMap<GraphNode, BTreeMap<GraphNode, String>>> = BTreeMap::new();
    for (from, named) in modules {
        for path in named {
            let Some(to) = longest(modules, path).filter(|to| to != from) else { continue };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let graph = graphs.entry(from[..common].to_vec()).or_default();
            let arrow = format!("{} -> {}", shown(from), shown(&to));
            graph
                .entry(from.get(common).cloned())
                .or_default()
                .entry(to.get(common).cloned())
                .or_insert(arrow);
        }
    }
    graphs.values().flat_map(circles_in).collect()
}

/// The module that a path leads to or into.
fn longest(modules: &Modules, path: &[String]) -> Option<ModulePath> {
    (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|prefix| modules.contains_key(prefix))
}

fn shown(path: &[String]) -> String {
    [&["crate".to_owned()], path].concat().join("::")
}

fn circles_in(graph: &BTreeMap<GraphNode, BTreeMap<GraphNode, String>>) -> Vec<String> {
    let reached: BTreeMap<&GraphNode, BTreeSet<&GraphNode>> =
        graph.keys().map(|node| (node, reachable(graph, node))).collect();
    let mut circles = BTreeSet::new();
    for (node, to) in &reached {
        let circle: BTreeSet<&GraphNode> = to
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(node)))
            .copied()
            .collect();
        let arrows = circle.iter().flat_map(|from| {
            graph[*from].iter().filter(|(to, _)| circle.contains(to)).map(|(_, arrow)| arrow.as_str())
        });
        let arrows: Vec<&str> = arrows.collect();
        if !arrows.is_empty() {
            circles.insert(arrows.join(", "));
        }
    }
    circles.into_iter().collect()
}

/// The nodes that arrows lead to from `start`.
fn reachable<'a>(
    graph: &'a BTreeMap<GraphNode, BTreeMap<GraphNode, String>>,
    start: &'a GraphNode,
) -> BTreeSet<&'a GraphNode> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
    while let Some(node) = left.pop() {
        left.extend(graph.get(node).into_iter().flat_map(BTreeMap::keys).filter(|to| seen.insert(*to)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ModulePath {
        text.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let look = |(at, text): &(&str, &str)| (path(at), look(text, &path(at)).unwrap().0);
        circles(&files.iter().map(look).collect())
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        let a = ("a", "use crate::b::{self, Thing};");
        for b in [
            "use super::a::Other;",
            "fn f() -> crate::a::Other {}",
            "use crate::{a, c};",
            "pub use super::a::*;",
        ] {
            let circles = found(&[("", "mod a; mod b;"), a, ("b", b)]);
            assert_eq!(circles, ["crate::a -> crate::b, crate::b -> crate::a"], "{b}");
        }
        let circles = found(&[("", "mod x; pub use x::Y;"), ("x", "use crate::Y;")]);
        assert_eq!(circles, ["crate -> crate::x, crate::x -> crate"], "a facade and its part");
    }

    #[test]
    fn folders_are_looked_at_as_a_whole() {
        let files = [
            ("", "mod a; mod b;"),
            ("a", "mod x; mod y;"),
            ("b", "mod z;"),
            ("a::x", "use crate::b::z::Z;"),
            ("a::y", "fn y() {}"),
            ("b::z", "use crate::a::y;"),
        ];
        assert_eq!(found(&files), ["crate::a::x -> crate::b::z, crate::b::z -> crate::a::y"]);
    }

    #[test]
    fn what_goes_one_way_is_no_circle() {
        let files = [
            ("", "mod a; mod b; pub use a::A;"),
            (
                "a",
                "pub(in crate::b) fn f() {} use super::b::B; use std::fmt; mod inner { use super::Local; }",
            ),
            ("b", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
