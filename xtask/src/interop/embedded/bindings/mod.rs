//! Upstream's own tests of Ceph's bindings for Python, from Debian's source package of Ceph, on our embedded cluster.

pub(in crate::interop) mod rados;
pub(in crate::interop) mod rbd;

use crate::cluster::{Stage, mirror};
use crate::guest;
use crate::sh;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The files that are taken from the source package: the tests, and the assertions that they make.
const FILES: [&str; 3] = ["test_rados.py", "test_rbd.py", "assertions.py"];

/// Where they are in it.
const FOLDER: &str = "src/test/pybind";

/// Changes when what is taken does.
const MADE_OF: &str = "three files of src/test/pybind";

/// How long all tests of a file may take on a busy machine: they derive keys from passphrases, among other things.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs the tests of `file` with these variables in their environment, and returns what pytest says.
pub(in crate::interop) fn run_tests(stage: &Stage, file: &str, environment: &[&str]) -> Result<String> {
    let folder = sources(stage, stage.suite()?).context("cannot get the tests of Ceph's source package")?;
    for file in FILES {
        fs::copy(folder.join(file), stage.path(file))?;
    }
    // One that hangs is the last that is named, and says where it is.
    let options = "-v -rA --tb=short -W ignore -p no:cacheprovider -o faulthandler_timeout=240";
    let environment = environment.join(" ");
    let line = format!("env PYTHONUNBUFFERED=1 {environment} python3 -m pytest {options} {file}");
    let output = sh::output(&mut stage.ceph_command_within(&line, PATIENCE))?;
    fs::write(stage.path("tests.out"), &output.stdout)?;
    // Its exit code is 1 if tests have failed, and another one if they were not run.
    if output.status.code().is_none_or(|code| code > 1) {
        bail!("pytest ended with {}:\n{}", output.status, sh::tail(&output.stdout));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Which tests have passed, by their names.
pub(in crate::interop) struct Outcomes<'a>(BTreeMap<&'a str, bool>);

impl<'a> Outcomes<'a> {
    /// Those that pytest tells.
    pub(in crate::interop) fn of(said: &'a str) -> Self {
        let mut outcomes = BTreeMap::new();
        for line in said.lines() {
            let mut words = line.split(' ');
            let passed = match words.next() {
                Some("PASSED") => true,
                Some("FAILED" | "ERROR") => false,
                _ => continue,
            };
            let name = words.next().and_then(|word| word.split_once("::"));
            if let Some((_, name)) = name {
                // One that fails while it tidies up has passed before.
                *outcomes.entry(name).or_insert(true) &= passed;
            }
        }
        Self(outcomes)
    }

    fn failed(&self) -> BTreeSet<&'a str> {
        self.0.iter().filter(|(_, passed)| !**passed).map(|(name, _)| *name).collect()
    }

    fn has_passed(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|passed| *passed)
    }

    fn passed(&self) -> usize {
        self.0.values().filter(|passed| **passed).count()
    }
}

/// An error unless exactly those tests have failed that have a reason to.
pub(in crate::interop) fn judge(
    outcomes: &Outcomes<'_>,
    failures: &[(&str, &str)],
    min_passed: usize,
) -> Result<()> {
    let expected: BTreeSet<&str> = failures.iter().map(|(name, _)| *name).collect();
    let failed = outcomes.failed();
    let surprises: Vec<_> = failed.difference(&expected).collect();
    ensure!(surprises.is_empty(), "tests fail that should pass: {surprises:?} (see tests.out)");
    for (name, reason) in failures {
        ensure!(!outcomes.has_passed(name), "{name} passes, though {reason}: take it off the list");
        ensure!(outcomes.0.contains_key(name), "there is no test {name} any more: take it off the list");
    }
    let passed = outcomes.passed();
    ensure!(passed >= min_passed, "only {passed} tests have passed");
    Ok(())
}

/// A folder with [`FILES`], which are taken from the source package the first time.
fn sources(stage: &Stage, suite: &str) -> Result<PathBuf> {
    guest::keep(&stage.cache("sources"), &format!("ceph-{suite}"), MADE_OF, |folder| {
        sh::step(&format!("getting the tests of {suite}'s source package of Ceph (once)"));
        let tarball = download(folder, suite)?;
        let files = FILES.map(|file| format!("*/{FOLDER}/{file}"));
        let mut tar = Command::new("tar");
        // It stops reading once it has them all: most of the archive comes before, but not all.
        tar.args(["--extract", "--xz", "--occurrence=1", "--strip-components=4", "--wildcards", "--file"]);
        sh::text(tar.arg(&tarball).args(files).current_dir(folder))?;
        for unwanted in ["lists", "sources.list"].map(|name| folder.join(name)).iter().chain([&tarball]) {
            if unwanted.is_dir() { fs::remove_dir_all(unwanted)? } else { fs::remove_file(unwanted)? }
        }
        Ok(())
    })
}

/// Downloads the archive with upstream's sources. apt checks it.
fn download(folder: &Path, suite: &str) -> Result<PathBuf> {
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let sources = folder.join("sources.list");
    fs::write(&sources, format!("deb-src {} {suite} main\n", mirror()?))?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.arg("--quiet").arg("--option").arg(format!("Dir::Etc::SourceList={}", sources.display()));
        apt.args(["--option", "Dir::Etc::SourceParts=-", "--option"]);
        apt.arg(format!("Dir::State::Lists={}", lists.display()));
        // Without the option apt, as root, would download as a user who cannot write here.
        apt.args(["--option", "APT::Sandbox::User=root"]).args(arguments);
        sh::text(apt.current_dir(folder)).map(drop)
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", "--tar-only", "ceph"])?;
    let is_archive = |path: &PathBuf| path.to_string_lossy().ends_with(".orig.tar.xz");
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    files.find(is_archive).context("apt has downloaded no archive of sources")
}
