//! The package for Debian.

use super::files::files_below;
use super::release::{ARCHITECTURE, Release};
use crate::sh;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packs the tree, and returns the package.
pub(super) fn package(release: &Release, tree: &Path, out: &Path) -> Result<PathBuf> {
    let about = tree.join("DEBIAN");
    fs::create_dir_all(&about)?;
    let mut size = 0;
    for file in files_below(tree)? {
        size += fs::metadata(file)?.len();
    }
    fs::write(about.join("control"), control(&release.version, size.div_ceil(1024)))?;
    let package = out.join(format!("onego_{}_{ARCHITECTURE}.deb", release.version));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "--build"]).arg(tree).arg(&package);
    // It dates all files.
    command.env("SOURCE_DATE_EPOCH", release.date.to_string());
    sh::said(&mut command).context("cannot make the package")?;
    Ok(package)
}

/// What Debian is told: the program is static, so it depends on nothing.
fn control(version: &str, kib: u64) -> String {
    format!(
        "Package: onego\n\
         Version: {version}\n\
         Architecture: {ARCHITECTURE}\n\
         Maintainer: The Onego developers <onego@invalid>\n\
         Installed-Size: {kib}\n\
         Section: admin\n\
         Priority: optional\n\
         Description: storage data at one go\n \
         A client for images of a Ceph cluster and for files over NFS in userspace, an\n \
         embedded Ceph cluster, a server of NFS, and exports of block devices, with few\n \
         system calls and few copies.\n"
    )
}
