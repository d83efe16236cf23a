//! What the program is made of: its crates, their licences, and a bill of materials.

use crate::workspace::{Package, Workspace};
use anyhow::{Context as _, Result};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

/// How files with a licence's text begin.
const LICENCE_FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// The crates that are linked into the program, ours left out, in order.
fn linked(workspace: &Workspace) -> Result<Vec<&Package>> {
    let program = workspace.members().find(|package| package.name == "onego-cli");
    let mut left = vec![program.context("there is no package onego-cli")?.id.as_str()];
    let mut seen = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Some(node) = workspace.resolve.nodes.iter().find(|node| node.id == id) else { continue };
        let linked = node.deps.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        left.extend(linked.map(|edge| edge.pkg.as_str()));
    }
    let others = seen.into_iter().filter(|id| !workspace.workspace_members.iter().any(|member| member == id));
    let mut packages: Vec<_> = others.filter_map(|id| workspace.package(id)).collect();
    packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(packages)
}

/// The licences of Onego and of the crates in it: what each is under, and every text once.
pub(super) fn licences(workspace: &Workspace) -> Result<String> {
    let mut text =
        "Onego: MIT OR Apache-2.0, see LICENSE-MIT and LICENSE-APACHE.\n\nLinked into the program:\n"
            .to_owned();
    let mut texts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for package in linked(workspace)? {
        let licence = package.license.as_deref().unwrap_or("see its text");
        writeln!(text, "  {} {}: {licence}", package.name, package.version)?;
        for entry in fs::read_dir(package.folder())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().to_uppercase();
            if entry.path().is_file() && LICENCE_FILES.iter().any(|beginning| name.starts_with(beginning)) {
                let words = String::from_utf8_lossy(&fs::read(entry.path())?).trim().to_owned();
                texts.entry(words).or_default().insert(&package.name);
            }
        }
    }
    for (words, packages) in texts {
        let packages: Vec<_> = packages.into_iter().collect();
        write!(text, "\n{}\n{}:\n\n{words}\n", "-".repeat(80), packages.join(", "))?;
    }
    Ok(text)
}

/// The bill of materials, in the form of CycloneDX 1.5.
pub(super) fn bill_of_materials(workspace: &Workspace, version: &str) -> Result<String> {
    let component = |package: &Package| {
        json!({
            "type": "library",
            "name": package.name,
            "version": package.version,
            "purl": format!("pkg:cargo/{}@{}", package.name, package.version),
            "licenses": [{ "expression": package.license.as_deref().unwrap_or("NOASSERTION") }],
        })
    };
    let components: Vec<_> = linked(workspace)?.into_iter().map(component).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "onego", "version": version } },
        "components": components,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}
