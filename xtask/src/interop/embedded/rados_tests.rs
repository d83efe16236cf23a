//! Upstream's own tests of librados's bindings for Python, from Debian's source package of Ceph, on our embedded cluster.

use crate::cluster::{Embedded, Stage, mirror};
use crate::guest;
use crate::sh;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that are taken from the source package: the tests, and the assertions that they make.
const FILES: [&str; 2] = ["test_rados.py", "assertions.py"];

/// Where they are in it.
const FOLDER: &str = "src/test/pybind";

/// Changes when what is taken does.
const MADE_OF: &str = "two files of src/test/pybind";

/// Tests that fail, each with its reason. One that passes does not belong here.
const FAILURES: &[(&str, &str)] =
    &[("TestRados::test_get_pool_base_tier", NO_TIERS), ("TestIoctxEc::test_alignment", NO_ERASURE_CODING)];
const NO_TIERS: &str = "the embedded cluster has no cache tiers";
const NO_ERASURE_CODING: &str = "the embedded cluster has no erasure-coded pools";

/// Tests that count the references to an object, and fail with Python 3.14, which borrows one of those that were counted
/// before: with any cluster.
const COUNT_REFERENCES: [&str; 3] = [
    "TestIoctx::test_aio_read_wait_for_complete",
    "TestIoctx::test_aio_read_wait_for_complete_and_cb",
    "TestIoctx::test_aio_read_wait_for_complete_and_cb_error",
];
const BORROWS: &str = "Python 3.14 and later count fewer references";

/// A program whose local variable has two references where Python counts all of them.
const COUNTS_ALL: &str = "import sys
def counted():
    own = object()
    return sys.getrefcount(own)
print(counted() == 2)";

/// Tests that must pass at least: a run of few would say nothing.
const MIN_PASSED: usize = 75;

/// The tests of the release whose bindings are there.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let folder = sources(stage, stage.suite()?).context("cannot get the tests of Ceph's source package")?;
    for file in FILES {
        fs::copy(folder.join(file), stage.path(file))?;
    }
    let _cluster = Embedded::start(stage, "")?;
    let options = "-q -rA --tb=short -W ignore -p no:cacheprovider";
    let output = sh::output(&mut stage.ceph_command(&format!("python3 -m pytest {options} {}", FILES[0])))?;
    let said = String::from_utf8_lossy(&output.stdout);
    fs::write(stage.path("tests.out"), &output.stdout)?;
    // Its exit code is 1 if tests have failed, and another one if they were not run.
    if output.status.code() != Some(1) {
        bail!("pytest ended with {}:\n{}", output.status, sh::tail(&output.stdout));
    }
    let mut python = stage.ceph_command("python3 -c");
    let counts_all = sh::text(python.arg(COUNTS_ALL))?;
    judge(&outcomes(&said), &failures(counts_all.trim() == "True"))
}

/// The tests that fail with a Python that counts all references, or with another.
fn failures(counts_all: bool) -> Vec<(&'static str, &'static str)> {
    let borrowed = COUNT_REFERENCES.iter().filter(|_| !counts_all).map(|name| (*name, BORROWS));
    FAILURES.iter().copied().chain(borrowed).collect()
}

/// Which tests have passed, by their names.
fn outcomes(said: &str) -> BTreeMap<&str, bool> {
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
    outcomes
}

/// An error unless exactly those tests have failed that have a reason to.
fn judge(outcomes: &BTreeMap<&str, bool>, failures: &[(&str, &str)]) -> Result<()> {
    let failed: BTreeSet<&str> =
        outcomes.iter().filter(|(_, passed)| !**passed).map(|(name, _)| *name).collect();
    let expected: BTreeSet<&str> = failures.iter().map(|(name, _)| *name).collect();
    let surprises: Vec<_> = failed.difference(&expected).collect();
    ensure!(surprises.is_empty(), "tests fail that should pass: {surprises:?} (see tests.out)");
    for (name, reason) in failures {
        ensure!(
            !outcomes.get(name).is_some_and(|passed| *passed),
            "{name} passes, though {reason}: take it off the list"
        );
        ensure!(outcomes.contains_key(name), "there is no test {name} any more: take it off the list");
    }
    let passed = outcomes.len() - failed.len();
    ensure!(passed >= MIN_PASSED, "only {passed} tests have passed");
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What pytest says if all tests do as they should.
    fn said(failures: &[(&str, &str)], more: &str) -> String {
        let passed: String =
            (0..MIN_PASSED).map(|n| format!("PASSED test_rados.py::TestA::test_{n}\n")).collect();
        let failed: String = failures
            .iter()
            .map(|(name, _)| format!("FAILED test_rados.py::{name} - rados.OSError: no\n"))
            .collect();
        format!("....F\n=== short test summary info ===\n{passed}{failed}{more}86 passed\n")
    }

    #[test]
    fn exactly_the_tests_that_have_a_reason_may_fail() {
        for counts_all in [true, false] {
            let (failures, others) = (failures(counts_all), failures(!counts_all));
            let judge = |said: &str| judge(&outcomes(said), &failures);
            assert!(judge(&said(&failures, "")).is_ok());
            assert!(judge(&said(&others, "")).is_err(), "another Python counts otherwise");
            let other = said(&failures, "ERROR test_rados.py::TestA::test_1 - assert 1 == 2\n");
            assert!(judge(&other).unwrap_err().to_string().contains("TestA::test_1"));
            let better = said(&failures, "");
            let better =
                better.replace("FAILED test_rados.py::TestIoctxEc", "PASSED test_rados.py::TestIoctxEc");
            assert!(judge(&better).unwrap_err().to_string().contains("take it off the list"));
            assert!(judge(&said(&failures, "").replace("TestIoctxEc", "TestErasure")).is_err());
            assert!(judge("").is_err());
        }
    }
}
