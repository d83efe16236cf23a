//! Cargo metadata, and helpers to run commands in the workspace root.

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

pub(crate) struct Workspace {
    /// Runs commands in `root`.
    pub(crate) sh: Shell,
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    metadata: Metadata,
}

/// A named step of a checklist.
pub(crate) type Step = (&'static str, fn(&Workspace) -> Result<()>);

impl Workspace {
    /// Reads the metadata of the workspace that this program was built from.
    pub(crate) fn load() -> Result<Self> {
        let sh = Shell::new()?;
        let host = cmd!(sh, "rustc --print host-tuple").quiet().read()?;
        let metadata = MetadataCommand::new()
            .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
            .other_options(["--filter-platform".to_owned(), host])
            .exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        sh.change_dir(&root);
        Ok(Self { sh, root, target: metadata.target_directory.clone().into(), metadata })
    }

    pub(crate) fn members(&self) -> Vec<&Package> {
        self.metadata.workspace_packages()
    }

    pub(crate) fn member(&self, name: &str) -> Result<&Package> {
        let member = self.members().into_iter().find(|package| package.name == name);
        member.with_context(|| format!("the workspace has no package {name}"))
    }

    /// Returns the packages linked into `root` and `root` itself. Does not descend into those named in `opaque`.
    pub(crate) fn linked(&self, root: &Package, opaque: &[&str]) -> Result<Vec<&Package>> {
        let graph = self.metadata.resolve.as_ref().context("cargo metadata has no dependency graph")?;
        let mut seen = BTreeSet::from([&root.id]);
        let mut left = vec![&root.id];
        while let Some(id) = left.pop() {
            let nodes = graph.nodes.iter().filter(|node| node.id == *id);
            let nodes = nodes.filter(|_| !opaque.contains(&self.metadata[id].name.as_str()));
            let linked = nodes
                .flat_map(|node| &node.deps)
                .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
            left.extend(linked.map(|dep| &dep.pkg).filter(|id| seen.insert(id)));
        }
        let mut packages: Vec<_> = seen.into_iter().map(|id| &self.metadata[id]).collect();
        packages.sort_by_key(|package| (&package.name, &package.version));
        Ok(packages)
    }

    /// Installs a cargo subcommand unless it is installed.
    pub(crate) fn install(&self, name: &str) -> Result<()> {
        let sh = &self.sh;
        if cmd!(sh, "{name} --version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
            // A debug build of the tool compiles in less than half the time.
            cmd!(sh, "cargo install {name} --locked --debug").run()?;
        }
        Ok(())
    }

    /// Fails if a file is modified, staged or untracked.
    pub(crate) fn ensure_committed(&self) -> Result<()> {
        let changed = cmd!(self.sh, "git status --porcelain").quiet().read()?;
        ensure!(changed.is_empty(), "uncommitted changes:\n{changed}");
        Ok(())
    }

    /// Runs all steps and returns the names of those that failed.
    pub(crate) fn run_steps<'a>(&self, steps: impl IntoIterator<Item = &'a Step>) -> Vec<&'static str> {
        let mut failed = Vec::new();
        for (name, step) in steps {
            eprintln!("\n== {name}");
            match step(self) {
                Ok(()) => eprintln!("{name}: ok"),
                Err(error) => {
                    eprintln!("{name}: {error:#}");
                    failed.push(*name);
                }
            }
        }
        failed
    }
}

/// Fails with a list of `offences` unless it is empty.
pub(crate) fn verdict(offences: &[String]) -> Result<()> {
    ensure!(offences.is_empty(), "{} found\n  {}", offences.len(), offences.join("\n  "));
    Ok(())
}
