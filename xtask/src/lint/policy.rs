//! Where unsafe code may be.

use super::verdict::verdict;
use crate::workspace::{Package, Workspace};
use anyhow::{Context as _, Result};
use std::path::Path;

/// The crates that talk to memory, to the kernel and to libraries in C. Clippy asks for a reason at every unsafe block of theirs.
const MAY_BE_UNSAFE: &[&str] = &[
    "onego-buf",
    "onego-capi",
    "onego-engine",
    "onego-cipher",
    "onego-guest-memory",
    "onego-ublk",
    "onego-verbs",
];

/// Every other crate forbids unsafe code, and every crate takes the lints of the workspace.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    for package in workspace.members() {
        let shown =
            |path: &Path| path.strip_prefix(&workspace.workspace_root).unwrap_or(path).display().to_string();
        if !read(&package.manifest_path)?.contains("[lints]\nworkspace = true\n") {
            offences.push(format!("{}: does not take the workspace's lints", shown(&package.manifest_path)));
        }
        for root in roots(package) {
            if !read(root)?.lines().any(|line| line == "#![forbid(unsafe_code)]") {
                offences.push(format!("{}: lacks #![forbid(unsafe_code)]", shown(root)));
            }
        }
    }
    verdict(&offences)
}

/// The root files of the released code of a crate that must be safe.
fn roots(package: &Package) -> impl Iterator<Item = &Path> {
    let safe = !MAY_BE_UNSAFE.contains(&package.name.as_str());
    let released = package.targets.iter().filter(|target| target.is_released());
    released.map(|target| target.src_path.as_path()).filter(move |_| safe)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
