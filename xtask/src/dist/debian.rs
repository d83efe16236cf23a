//! The package for Debian.

use super::files::files_below;
use super::release::{ARCHITECTURE, Release};
use crate::sh;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Before the files are removed or replaced: servers of the units end (deb-prerm(5)).
const BEFORE_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
    systemctl stop 'onego-*.service' || true
fi
";

/// After they were removed: the service manager forgets the units, and when all goes, which of them were enabled (deb-postrm(5)).
const AFTER_REMOVAL: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = purge ] && [ -d /etc/systemd/system ]; then
    find /etc/systemd/system -type l -name 'onego-*.service' -delete
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
";

/// After they were put in place: the service manager learns of the units (deb-postinst(5)).
const AFTER_INSTALLATION: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
";

/// What runs when the package comes and goes.
const SCRIPTS: [(&str, &str); 3] =
    [("postinst", AFTER_INSTALLATION), ("postrm", AFTER_REMOVAL), ("prerm", BEFORE_REMOVAL)];

/// Packs the tree, and returns the package.
pub(super) fn package(release: &Release, tree: &Path, out: &Path) -> Result<PathBuf> {
    let about = tree.join("DEBIAN");
    fs::create_dir_all(&about)?;
    let mut size = 0;
    let mut settings = String::new();
    for file in files_below(tree)? {
        size += fs::metadata(&file)?.len();
        let place = file.strip_prefix(tree)?;
        if place.starts_with("etc") {
            settings += &format!("/{}\n", place.display());
        }
    }
    fs::write(about.join("control"), control(&release.version, size.div_ceil(1024)))?;
    // What the administrator has changed in these stays.
    fs::write(about.join("conffiles"), settings)?;
    for (name, script) in SCRIPTS {
        let path = about.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let package = out.join(format!("onego_{}_{ARCHITECTURE}.deb", release.version));
    let mut command = Command::new("dpkg-deb");
    // Debian 11 knows no zstd.
    command.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(&package);
    // It dates all files.
    command.env("SOURCE_DATE_EPOCH", release.date.to_string());
    sh::said(&mut command).context("cannot make the package")?;
    fs::remove_dir_all(about)?;
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
