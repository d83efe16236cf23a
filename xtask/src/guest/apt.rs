//! Debian's packages for guests, of the host's release and of its backports.

use super::store;
use crate::cluster;
use crate::packages;
use crate::sh;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Archives that packages are taken from: the host's, or others with lists of their own.
#[derive(Default)]
pub(super) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// The backports of the host's release. Their lists are fetched to a folder below `cache` the first time.
    pub(super) fn backports(cache: &Path) -> Result<Self> {
        let about = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
        let release = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let release = release.context("this system does not say which Debian release it is")?;
        let source = format!("deb {} {release}-backports main\n", cluster::mirror()?);
        let folder = store::keep(cache, "backports", &source, |folder| {
            fs::create_dir_all(folder.join("lists/partial"))?;
            fs::write(folder.join("sources.list"), &source)?;
            sh::text(Self::of(folder).get().arg("update")).map(drop)
        });
        Ok(Self::of(&folder.context("cannot fetch the lists of backports")?))
    }

    /// The archives with lists in a folder.
    fn of(folder: &Path) -> Self {
        let settings = [
            format!("Dir::Etc::SourceList={}", folder.join("sources.list").display()),
            "Dir::Etc::SourceParts=-".to_owned(),
            format!("Dir::State::Lists={}", folder.join("lists").display()),
            format!("Dir::Cache={}", folder.display()),
        ];
        Self { options: settings.into_iter().flat_map(|setting| ["--option".to_owned(), setting]).collect() }
    }

    /// The first package that `package` depends on and whose name has that beginning.
    pub(super) fn dependency(&self, package: &str, beginning: &str) -> Result<String> {
        let ask = || {
            let mut cache = Command::new("apt-cache");
            sh::text(cache.args(&self.options).args(["depends", "--important", package]))
        };
        let find = |said: String| {
            let packages = said.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
            packages.map(str::to_owned).find(|package| package.starts_with(beginning))
        };
        if let Some(package) = ask().ok().and_then(find) {
            return Ok(package);
        }
        // The lists of the host's archives may never have been fetched.
        packages::update()?;
        ask().map(find)?.with_context(|| format!("apt knows no package that {package} depends on"))
    }

    /// Downloads packages and unpacks them to the folder `to`. Nothing is installed.
    pub(super) fn unpack(&self, packages: &[&str], to: &Path) -> Result<()> {
        let downloads = to.join("downloads");
        fs::create_dir_all(&downloads)?;
        sh::text(self.get().arg("download").args(packages).current_dir(&downloads))?;
        for entry in fs::read_dir(&downloads)? {
            sh::text(Command::new("dpkg-deb").arg("--extract").arg(entry?.path()).arg(to))?;
        }
        Ok(fs::remove_dir_all(&downloads)?)
    }

    fn get(&self) -> Command {
        let mut apt = Command::new("apt-get");
        // Without the option apt, as root, would download as a user who cannot write here.
        apt.args(["--quiet", "--option", "APT::Sandbox::User=root"]).args(&self.options);
        apt
    }
}
