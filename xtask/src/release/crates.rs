//! The crates as the registry would get them.

use crate::sh;
use crate::workspace::{Package, Workspace};
use anyhow::{Context as _, Result, ensure};

/// The version that all crates have.
pub(super) fn version(workspace: &Workspace) -> Result<String> {
    let first = workspace.members().next().context("there are no crates")?;
    Ok(first.version.clone())
}

pub(super) fn one_version(workspace: &Workspace) -> Result<()> {
    let version = version(workspace)?;
    let others: Vec<_> = workspace
        .members()
        .filter(|package| package.version != version)
        .map(|package| &package.name)
        .collect();
    ensure!(others.is_empty(), "these have another version than {version}: {others:?}");
    let asked = |package: &Package| {
        let ours = |name: &str| workspace.members().any(|other| other.name == name);
        let mut needed = package.dependencies.iter().filter(|needed| ours(&needed.name) && needed.req != "*");
        needed.find(|needed| needed.req != format!("^{version}")).map(|needed| needed.name.clone())
    };
    let other = workspace.members().find_map(asked);
    ensure!(other.is_none(), "another version than {version} is asked for of {other:?}");
    Ok(())
}

/// Every crate says what it is, where it comes from, and under which terms.
pub(super) fn descriptions(workspace: &Workspace) -> Result<()> {
    for package in published(workspace) {
        let lacks = [
            ("description", package.description.is_none()),
            ("license", package.license.is_none()),
            ("repository", package.repository.is_none()),
            ("package.metadata.docs.rs", package.metadata["docs"]["rs"].is_null()),
        ];
        let lacks: Vec<_> = lacks.iter().filter(|(_, lacks)| *lacks).map(|(name, _)| *name).collect();
        ensure!(lacks.is_empty(), "{} has no {}", package.manifest_path.display(), lacks.join(", no "));
    }
    Ok(())
}

/// Every crate can be packed: all files are there, and the manifest is as the registry wants it.
///
/// Crates are not built from their packages, because the registry has none of those that they depend on.
pub(super) fn packages(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["package", "--quiet", "--no-verify", "--locked", "--offline"]);
    for package in in_order(workspace)? {
        command.args(["--package", &package.name]);
    }
    sh::run(&mut command)
}

fn published(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace.members().filter(|package| package.publish.is_none())
}

/// The crates, each after those that it depends on.
pub(super) fn in_order(workspace: &Workspace) -> Result<Vec<&Package>> {
    let mut left: Vec<_> = published(workspace).collect();
    let mut ordered: Vec<&Package> = Vec::new();
    while !left.is_empty() {
        let waits = |package: &&Package, left: &[&Package]| {
            // What has no version is left out of a package: it is for tests alone.
            let mut needed = package.dependencies.iter().filter(|needed| needed.req != "*");
            needed.any(|needed| left.iter().any(|other| other.name == needed.name))
        };
        let (later, now): (Vec<_>, Vec<_>) = left.iter().partition(|package| waits(package, &left));
        ensure!(!now.is_empty(), "crates depend on each other in a circle");
        ordered.extend(now);
        left = later;
    }
    Ok(ordered)
}
