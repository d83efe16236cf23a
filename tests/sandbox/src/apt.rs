//! Debian packages, downloaded and unpacked but never installed.
//!
//! Each [`Apt`] has lists, an archive cache and an empty package status of its own below the target folder, so apt
//! resolves dependencies as for an empty system and leaves the host alone.

use crate::{cached, sh};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Archives of one Debian release, with their lists.
pub struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Opens the archive of a suite, such as `bookworm` or `bookworm-backports`; fetches its lists the first time.
    pub fn open(suite: &str) -> Result<Self> {
        Self::with_sources(suite, &format!("deb {} {suite} main\n", mirror()?))
    }

    /// Opens the archive of a suite's source packages.
    pub fn open_sources(suite: &str) -> Result<Self> {
        Self::with_sources(&format!("{suite}-sources"), &format!("deb-src {} {suite} main\n", mirror()?))
    }

    fn with_sources(name: &str, sources: &str) -> Result<Self> {
        let folder = cached(&format!("roots/apt/{name}"), sources, |folder| {
            for name in ["lists/partial", "archives/partial"] {
                fs::create_dir_all(folder.join(name))?;
            }
            fs::write(folder.join("status"), "")?;
            fs::write(folder.join("sources.list"), sources)?;
            Self { folder: folder.to_owned() }.update()
        });
        Ok(Self { folder: folder.with_context(|| format!("cannot fetch apt's lists of {name}"))? })
    }

    fn update(&self) -> Result<()> {
        // A release in the making has lists with an expiry date, which a mirror that stands still exceeds.
        sh::text(self.command("apt-get").args(["--option=Acquire::Check-Valid-Until=false", "update"]))
            .map(drop)
    }

    /// Downloads packages and all that they depend on.
    pub fn closure(&self, packages: &str) -> Result<Vec<PathBuf>> {
        self.download(|| {
            let mut apt = self.command("apt-get");
            apt.args(["install", "--yes", "--download-only", "--no-install-recommends"])
                .args(packages.split_whitespace());
            sh::text(&mut apt)?;
            packages_in(&self.folder.join("archives"))
        })
    }

    /// Downloads packages without their dependencies.
    pub fn packages(&self, packages: &str) -> Result<Vec<PathBuf>> {
        let to =
            self.folder.join("single").join(packages.replace(' ', "-").chars().take(100).collect::<String>());
        self.download(|| {
            fs::create_dir_all(&to)?;
            sh::text(
                self.command("apt-get").arg("download").args(packages.split_whitespace()).current_dir(&to),
            )?;
            packages_in(&to)
        })
    }

    /// Runs a download, again with fresh lists if the archive no longer has what the lists name.
    fn download(&self, run: impl Fn() -> Result<Vec<PathBuf>>) -> Result<Vec<PathBuf>> {
        run().or_else(|_| {
            self.update()?;
            run()
        })
    }

    /// Returns the first dependency of `package` whose name starts with `prefix`.
    pub fn dependency(&self, package: &str, prefix: &str) -> Result<String> {
        let said = sh::text(self.command("apt-cache").args(["depends", "--important", package]))?;
        let mut names = said.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let found = names.find(|name| name.starts_with(prefix));
        found.map(str::to_owned).with_context(|| format!("{package} depends on no {prefix}*"))
    }

    /// Downloads the upstream archive of a source package into `to`. Requires [`open_sources`](Self::open_sources).
    pub fn upstream_archive(&self, package: &str, to: &Path) -> Result<PathBuf> {
        let options = ["source", "--download-only", "--tar-only", package];
        sh::text(self.command("apt-get").args(options).current_dir(to))?;
        let mut files = fs::read_dir(to)?.filter_map(|entry| Some(entry.ok()?.path()));
        let archive = files.find(|path| path.to_string_lossy().contains(".orig.tar."));
        archive.with_context(|| format!("apt downloaded no upstream archive of {package}"))
    }

    /// Returns one of apt's programs with settings that keep it off the host's state.
    fn command(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        let at = |name: &str| self.folder.join(name).display().to_string();
        for setting in [
            format!("Dir::Etc::SourceList={}", at("sources.list")),
            "Dir::Etc::SourceParts=-".to_owned(),
            "Dir::Etc::PreferencesParts=-".to_owned(),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::State::Status={}", at("status")),
            format!("Dir::Cache={}", at("")),
            format!("Dir::Cache::Archives={}", at("archives")),
            "Acquire::Languages=none".to_owned(),
            // As root, apt would otherwise download as a user who cannot write here.
            "APT::Sandbox::User=root".to_owned(),
            // The lock it means is dpkg's, which an ordinary user cannot take.
            "Debug::NoLocking=true".to_owned(),
        ] {
            apt.arg("--option").arg(setting);
        }
        apt.arg("--quiet").env("DEBIAN_FRONTEND", "noninteractive");
        apt
    }
}

/// Returns the packages in a folder.
fn packages_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let packages: Vec<_> = files.filter(|path| path.extension().is_some_and(|name| name == "deb")).collect();
    if packages.is_empty() {
        bail!("apt downloaded nothing to {}", folder.display());
    }
    Ok(packages)
}

/// Unpacks packages into `root` on all processors, without manuals, documents and translations.
pub(crate) fn unpack(packages: &[PathBuf], root: &Path) -> Result<()> {
    const SCRIPT: &str = "set -e; root=$1; shift; for package; do dpkg-deb --fsys-tarfile \"$package\" | \
        tar -x -C \"$root\" --keep-directory-symlink --no-same-owner --exclude=./usr/share/doc \
        --exclude=./usr/share/man --exclude=./usr/share/locale; done";
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let unpack = |packages: &[PathBuf]| {
        sh::text(
            Command::new("bash").args(["-o", "pipefail", "-c", SCRIPT, "unpack"]).arg(root).args(packages),
        )
    };
    thread::scope(|scope| {
        let parts = packages.chunks(packages.len().div_ceil(workers).max(1));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || unpack(part))).collect();
        running.into_iter().try_for_each(|part| part.join().expect("unpacking does not panic").map(drop))
    })
}

/// Returns the address of the Debian archive that this host uses.
///
/// apt names it only for lists that it has, so the host's sources are fetched once to a folder of our own.
pub fn mirror() -> Result<String> {
    let folder = cached("roots/apt/host", "lists of the host's sources", |folder| {
        fs::create_dir_all(folder.join("lists/partial"))?;
        // A foreign source that fails does not matter.
        sh::output(host_apt(folder).arg("update")).map(drop)
    });
    let folder = folder.context("private roots take apt: they can be made on Debian and its derivatives")?;
    let format = "--format=$(ORIGIN) $(REPO_URI) $(CODENAME)";
    let targets = sh::text(host_apt(&folder).args(["indextargets", format, "Created-By: Packages"]))?;
    let debian = |line: &str| {
        let mut words = line.split(' ');
        let (origin, uri, suite) = (words.next()?, words.next()?, words.next()?);
        // Archives of updates hold no whole release.
        (origin == "Debian" && !suite.contains('-')).then(|| uri.to_owned())
    };
    targets.lines().find_map(debian).context("none of this host's apt sources is a Debian archive")
}

/// Returns apt-get with the host's sources and lists in `folder`.
fn host_apt(folder: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    apt.arg("--option").arg(format!("Dir::State::Lists={}", folder.join("lists").display()));
    apt.args(["--option", "APT::Sandbox::User=root", "--option", "Debug::NoLocking=true", "--quiet"]);
    apt
}
