//! The files of an installation, where they lie below the root.

use super::origins;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Shells, and where each looks for completions of `onego`.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/onego"),
    ("fish", "usr/share/fish/vendor_completions.d/onego.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_onego"),
];

/// Documents that go along.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Lays out all files below `tree`.
pub(super) fn lay_out(workspace: &Workspace, program: &Path, tree: &Path) -> Result<()> {
    let root = &workspace.workspace_root;
    copy(program, &tree.join("usr/bin/onego"))?;
    for (shell, place) in COMPLETIONS {
        let script = sh::bytes(Command::new(program).args(["completions", shell]))?;
        write(&tree.join(place), &script)?;
    }
    let pages = tree.join("usr/share/man/man1");
    fs::create_dir_all(&pages)?;
    sh::run(Command::new(program).arg("man").arg(&pages))?;
    let settings = sh::bytes(Command::new(program).args(["config", "template"]))?;
    write(&tree.join("etc/onego/onego.toml"), &settings)?;
    for unit in fs::read_dir(root.join("systemd")).context("cannot list the units")? {
        let unit = unit?;
        copy(&unit.path(), &tree.join("usr/lib/systemd/system").join(unit.file_name()))?;
    }
    let documents = tree.join("usr/share/doc/onego");
    for document in DOCUMENTS {
        copy(&root.join(document), &documents.join(document))?;
    }
    write(&documents.join("copyright"), origins::licences(workspace)?.as_bytes())?;
    // Whatever the files of this tree may be used by.
    sh::run(Command::new("chmod").args(["--recursive", "u=rwX,go=rX"]).arg(tree))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_folder_of(to)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display())).map(drop)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    make_folder_of(path)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn make_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().context("a file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}
