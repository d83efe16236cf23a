//! What cargo says about this workspace.

use crate::sh;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The part of `cargo metadata` that the tasks use.
#[derive(Deserialize)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
    pub(crate) resolve: Resolve,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    /// None: any registry may have it; none of them otherwise, or those that are named.
    pub(crate) publish: Option<Vec<String>>,
    /// What the manifest says for other programs than cargo.
    pub(crate) metadata: serde_json::Value,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<CargoTarget>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// None: a normal dependency; or "dev", or "build".
    pub(crate) kind: Option<String>,
    /// The versions that it may have; `*` where none is named.
    pub(crate) req: String,
}

#[derive(Deserialize)]
pub(crate) struct CargoTarget {
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

/// The graph of everything that is compiled, dependencies of dependencies included.
#[derive(Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<ResolveNode>,
}

#[derive(Deserialize)]
pub(crate) struct ResolveNode {
    pub(crate) id: String,
    pub(crate) deps: Vec<Edge>,
}

#[derive(Deserialize)]
pub(crate) struct Edge {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
pub(crate) struct EdgeKind {
    pub(crate) kind: Option<String>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        // The tree is the one this program was built from, wherever it is called.
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let host = sh::text(std::process::Command::new("rustc").args(["--print", "host-tuple"]))?;
        let mut command = sh::cargo();
        command.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest);
        command.args(["--filter-platform", host.trim()]);
        serde_json::from_slice(&sh::bytes(&mut command)?).context("cannot read what cargo metadata says")
    }

    /// The packages that are ours.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// A package, by the id that the graph uses.
    pub(crate) fn package(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// A cargo command that runs at the root of the workspace.
    pub(crate) fn cargo(&self) -> std::process::Command {
        let mut command = sh::cargo();
        command.current_dir(&self.workspace_root);
        command
    }
}

impl Package {
    /// The folder of the package.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }
}

impl CargoTarget {
    /// Is it code that users get (and not a test, a bench, an example or a build script)?
    pub(crate) fn is_released(&self) -> bool {
        self.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "bin" | "cdylib" | "proc-macro"))
    }
}
