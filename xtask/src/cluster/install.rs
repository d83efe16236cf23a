//! Ceph's own programs, in the versions that we are tested against.

use super::home::Home;
use crate::packages;
use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A version of Ceph, and the Debian release that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// 16.2 of Debian 12.
    Pacific,
    /// 18.2 of Debian 13.
    Reef,
    /// 20.2 of Debian 14.
    Tentacle,
}

impl Release {
    /// How `ceph --version` starts.
    fn version(self) -> &'static str {
        match self {
            Self::Pacific => "ceph version 16.2.",
            Self::Reef => "ceph version 18.2.",
            Self::Tentacle => "ceph version 20.2.",
        }
    }

    /// What a system made for the programs needs.
    fn packages(self) -> Vec<&'static str> {
        let own: &[_] = match self {
            // Its compressor zlib is not loaded without this library, which no package of Ceph depends on. Prometheus reads our
            // metrics.
            Self::Tentacle => &["libqatzip3", "prometheus"],
            // What Ceph's libraries have as their users beside fio, QEMU and Python.
            Self::Reef => &[
                "ctdb",
                "libiscsi-bin",
                "libvirt-clients",
                "libvirt-daemon",
                "libvirt-daemon-driver-storage-rbd",
                "nfs-ganesha-rados-grace",
                "rbd-fuse",
                "tcmu-runner",
                "tgt-rbd",
            ],
            Self::Pacific => &[],
        };
        [PACKAGES, own].concat()
    }

    fn suite(self) -> &'static str {
        match self {
            Self::Pacific => "bookworm",
            Self::Reef => "trixie",
            Self::Tentacle => "forky",
        }
    }
}

/// A system that has the programs.
pub(crate) struct Install {
    /// None: the host itself.
    pub(crate) root: Option<PathBuf>,
}

/// A system for each release that is used.
pub(crate) struct Installs(Vec<(Release, Install)>);

impl Installs {
    /// Finds or makes them.
    pub(crate) fn find(home: &Home, releases: impl Iterator<Item = Release>) -> Result<Self> {
        let mut found: Vec<(Release, Install)> = Vec::new();
        for release in releases {
            if found.iter().all(|(other, _)| *other != release) {
                found.push((release, Install::find(release, home)?));
            }
        }
        Ok(Self(found))
    }

    /// The one with the programs of `release`.
    ///
    /// # Panics
    /// If that release was not among those to be found.
    pub(crate) fn of(&self, release: Release) -> &Install {
        let found = self.0.iter().find(|(other, _)| *other == release);
        &found.expect("every release that is used was looked for").1
    }
}

/// What all releases need.
const PACKAGES: &[&str] = &[
    "ceph-mon",
    "ceph-osd",
    "ceph-common",
    "fio",
    "libnbd-bin",
    "python3-libnbd",
    "python3-pytest",
    "python3-rados",
    "qemu-block-extra",
    "qemu-system-x86",
    "qemu-utils",
];

/// How debootstrap makes any release that has a merged `/usr`: it knows no release by name that is newer than itself.
const SCRIPT: &str = "/usr/share/debootstrap/scripts/sid";

/// Runs as the first process of a mount namespace of its own, so that what it mounts goes with it.
const FILL: &str = r#"
set -e
root=$0
mount -t proc proc "$root/proc"
# Nothing that is installed may start a service.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
# If this is interrupted, all of it is made anew: nothing has to reach the disk now. Nobody reads manuals here.
printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
    'path-exclude=/usr/share/locale/*' > "$root/etc/dpkg/dpkg.cfg.d/interop"
export DEBIAN_FRONTEND=noninteractive
# The lists of a release in the making are good for a week; a mirror that stands still has older ones.
chroot "$root" apt-get update --quiet --option Acquire::Check-Valid-Until=false
chroot "$root" apt-get install --quiet --yes --no-install-recommends "$@"
chroot "$root" apt-get clean
"#;

impl Install {
    /// The programs of `release`: the host's own if it has them, and otherwise a Debian system of that release
    /// below `home`, which is made there the first time, and anew if it lacks a package.
    pub(crate) fn find(release: Release, home: &Home) -> Result<Self> {
        if has_version(&mut Command::new("ceph"), release) {
            return Ok(Self { root: None });
        }
        let root = home.folder(release.suite());
        let has_all = has_packages(&mut inside(&root, "dpkg-query"), &release.packages());
        if !(has_all && has_version(&mut inside(&root, "ceph"), release)) {
            make(release, &root)
                .with_context(|| format!("cannot make a Debian {} system for its Ceph", release.suite()))?;
        }
        Ok(Self { root: Some(root.canonicalize()?) })
    }
}

/// A program of the system at `root`.
fn inside(root: &Path, program: &str) -> Command {
    let mut command = Command::new("chroot");
    command.arg(root).arg(program);
    command
}

fn has_version(ceph: &mut Command, release: Release) -> bool {
    let said = ceph.arg("--version").stderr(Stdio::null()).output();
    said.is_ok_and(|output| output.stdout.starts_with(release.version().as_bytes()))
}

/// Are all of `packages` installed?
fn has_packages(dpkg_query: &mut Command, packages: &[&str]) -> bool {
    let states = dpkg_query.args(["--show", "--showformat=${db:Status-Status}\n"]).args(packages);
    let said = states.stderr(Stdio::null()).output();
    said.is_ok_and(|output| output.status.success() && output.stdout == b"installed\n".repeat(packages.len()))
}

fn make(release: Release, root: &Path) -> Result<()> {
    if !packages::is_root()? {
        bail!("that takes root (debootstrap and chroot)");
    }
    sh::step(&format!("making a Debian {} system in {} (once)", release.suite(), root.display()));
    // It is built beside its place and moved there when it is whole.
    let building = root.with_extension("part");
    if building.exists() {
        fs::remove_dir_all(&building)?;
    }
    fs::create_dir_all(&building)?;
    let mirror = mirror()?;
    quietly(
        Command::new("unshare")
            .args(["--mount", "--", "debootstrap", "--variant=minbase", release.suite()])
            .arg(&building)
            .args([&mirror, SCRIPT]),
    )?;
    quietly(
        Command::new("unshare")
            .args(["--mount", "--", "sh", "-c", FILL])
            .arg(&building)
            .args(release.packages()),
    )?;
    let mut ceph = inside(&building, "ceph");
    if !has_version(&mut ceph, release) {
        let said = sh::text(ceph.stderr(Stdio::null()))?;
        bail!("Debian {} has another Ceph than the tests are for: {}", release.suite(), said.trim());
    }
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::rename(&building, root)?;
    Ok(())
}

/// Runs a command that says much; what it said is shown if it fails.
fn quietly(command: &mut Command) -> Result<()> {
    sh::text(command).map(drop)
}

/// Where this host takes its Debian packages from.
pub(crate) fn mirror() -> Result<String> {
    let format = "$(ORIGIN) $(REPO_URI) $(CODENAME)";
    let targets =
        sh::text(Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]))?;
    let debian = |line: &str| {
        let mut words = line.split(' ');
        let (origin, uri, suite) = (words.next()?, words.next()?, words.next()?);
        // The archives of security fixes and of updates hold no whole release.
        (origin == "Debian" && !suite.contains('-')).then(|| uri.to_owned())
    };
    targets.lines().find_map(debian).context("apt knows no Debian archive on this host (try apt-get update)")
}
