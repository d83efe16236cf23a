//! The files that users install, on systems without anything else: Debian package, OCI image, the program alone.

mod alone;
mod debian;
mod image;
mod services;

use crate::scenario::Scenario;
use anyhow::{Context as _, Result};
use onego_sandbox::{Sandbox, sh, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let on_debian = |name, about, run| Scenario::new(name, about, run).root().minutes(40);
    vec![
        on_debian(
            "package-debian12",
            "our package installs on Debian 12, serves Prometheus and the kernel's NFS client, and leaves nothing behind",
            |sandbox| debian::lives(sandbox, "bookworm"),
        ),
        on_debian("package-debian13", "our package on Debian 13", |sandbox| debian::lives(sandbox, "trixie")),
        on_debian("package-debian11", "our package on Debian 11", |sandbox| {
            debian::lives(sandbox, "bullseye")
        }),
        on_debian(
            "package-services",
            "the units start our servers on Debian 12, without rights that they do not need",
            services::run,
        ),
        Scenario::new("package-image", "our OCI image is consistent and runs", image::runs).minutes(40),
        Scenario::new(
            "package-alone",
            "the static program runs in an otherwise empty root and starts within its limits",
            alone::runs,
        )
        .minutes(40),
    ]
}

/// Packs the program under test, or a new build if that is not static, and returns the folder of the files.
fn pack(sandbox: &Sandbox) -> Result<PathBuf> {
    let (given, folder) = (sandbox.onego_program(), sandbox.path("files"));
    let libraries = sh::both(&sh::output(Command::new("ldd").arg(given))?);
    let mut dist = workspace::cargo();
    dist.args(["xtask", "dist", "--out"]).arg(&folder);
    if !libraries.contains("=>") {
        dist.arg("--onego").arg(given);
    }
    sh::text(&mut dist)?;
    Ok(folder)
}

/// Returns the file with this extension.
fn file(folder: &Path, extension: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = files.find(|path| path.to_string_lossy().ends_with(extension));
    found.with_context(|| format!("`cargo xtask dist` made no file *{extension}"))
}

/// Returns the program in the Debian package.
fn program(sandbox: &Sandbox, folder: &Path) -> Result<PathBuf> {
    let tree = sandbox.path("tree");
    sh::text(Command::new("dpkg-deb").arg("--extract").arg(file(folder, ".deb")?).arg(&tree))?;
    Ok(tree.join("usr/bin/onego"))
}
