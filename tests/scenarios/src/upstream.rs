//! Upstream's own tests of Ceph's bindings for Python, from Debian's source package of Ceph.

use anyhow::{Context as _, Result, bail, ensure};
use onego_sandbox::{Apt, RealCeph, Release, Sandbox, Server, Store, cached, sh, workspace};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// Files from the source package: the tests, and the assertions that they import.
const FILES: [&str; 3] = ["test_rados.py", "test_rbd.py", "assertions.py"];

/// Folder of the files in the source package.
const FOLDER: &str = "src/test/pybind";

/// Defines imported names that the bindings of an older release lack, so that only the tests fail that use them.
const CONFTEST: &str = include_str!("upstream.py");

/// Time all tests of a file get on a busy machine. Some derive keys from passphrases.
const PATIENCE: Duration = Duration::from_secs(600);

/// Lines of a hanging test's stacks that are worth printing.
const STACK_LINES: usize = 40;

/// Features of the images that librbd's tests create: the default ones.
pub(crate) const RBD_FEATURES: &str = "RBD_FEATURES=61";

/// Leaves out the one test in which Ceph's library may crash: it sends a ping to a monitor before it has set up the
/// connection's dispatcher. Our library takes the test.
const WITHOUT_PING: &str = "PYTEST_ADDOPTS=--deselect=test_rados.py::TestRados::test_ping_monitor";

/// Tests of librados's bindings that fail with any release, each with its reason.
pub(crate) const RADOS_FAILURES: &[(&str, &str)] = &[
    ("TestRados::test_get_pool_base_tier", "the embedded cluster has no cache tiers"),
    ("TestIoctxEc::test_alignment", "the embedded cluster has no erasure-coded pools"),
];

/// Tests of librados's bindings that fail with those of 16.2.
pub(crate) const PACIFIC_RADOS_FAILURES: &[(&str, &str)] =
    &[("TestIoctx::test_set_omap", NO_KEY_TYPE), ("TestIoctx::test_get_omap_vals_by_keys", NO_KEY_TYPE)];
const NO_KEY_TYPE: &str = "16.2 returns keys of an omap as text only";

/// Tests in which one image forwards an operation to another that owns the exclusive lock.
///
/// librbd may then wait forever: it repeats a request when it hears of the owner after sending it, and an owner that is done
/// with a request answers no repetition (<https://github.com/ceph/ceph/pull/49835>). The faster the cluster, the likelier.
const FORWARDING: [&str; 3] = [
    "test_rbd.py::TestExclusiveLock::test_follower_flatten",
    "test_rbd.py::TestExclusiveLock::test_follower_resize",
    "test_rbd.py::TestExclusiveLock::test_follower_snap_create",
];

/// Attempts at a test of [`FORWARDING`], and the time for each. It takes a second.
const ATTEMPTS: usize = 5;
const ATTEMPT: Duration = Duration::from_secs(20);

/// Tests that count references to an object and fail with Python 3.14, on any cluster.
const COUNT_REFERENCES: [&str; 3] = [
    "TestIoctx::test_aio_read_wait_for_complete",
    "TestIoctx::test_aio_read_wait_for_complete_and_cb",
    "TestIoctx::test_aio_read_wait_for_complete_and_cb_error",
];
const BORROWS: &str = "Python 3.14 and later borrow references instead of counting them";

/// A program that prints whether Python counts all references: a local variable then has two.
const COUNTS_ALL: &str =
    "import sys\ndef counted():\n    own = object()\n    return sys.getrefcount(own)\nprint(counted() == 2)";

/// Tests of librbd's bindings that fail with those of 16.2, as [`listed`] reads them.
pub(crate) const PACIFIC_RBD_FAILURES: &str = include_str!("upstream_rbd_16.txt");

/// Runs the tests of librados's bindings on our embedded cluster.
pub(crate) fn rados(sandbox: &Sandbox) -> Result<()> {
    let said = run_tests(sandbox, "test_rados.py", &[WITHOUT_PING])?;
    let mut failures = RADOS_FAILURES.to_vec();
    if sandbox.release() == Release::Pacific {
        failures.extend(PACIFIC_RADOS_FAILURES);
    }
    if sandbox.ceph_words(&["python3", "-c", COUNTS_ALL])?.trim() != "True" {
        failures.extend(COUNT_REFERENCES.map(|name| (name, BORROWS)));
    }
    judge(&Outcomes::of(&said), &failures, 75)
}

/// Runs the tests of librbd's bindings on our embedded cluster; in the long form on a real cluster first, where no more
/// tests may pass.
pub(crate) fn rbd(sandbox: &Sandbox) -> Result<()> {
    let (failures, mut min_passed) = match sandbox.release() {
        Release::Pacific => (listed(PACIFIC_RBD_FAILURES), 154),
        _ => (Vec::new(), 177),
    };
    let tests = || {
        for test in FORWARDING {
            let passes = |_| -> Result<bool> {
                let output = pytest(sandbox, test, &[RBD_FEATURES], ATTEMPT)?;
                Ok(Outcomes::of(&String::from_utf8_lossy(&output.stdout)).passed.len() == 1)
            };
            let passed = (0..ATTEMPTS).map(passes).find(|passed| !matches!(passed, Ok(false)));
            ensure!(passed.transpose()?.is_some(), "{test} fails or hangs {ATTEMPTS} times (see tests.out)");
        }
        let others = FORWARDING.map(|test| format!(" --deselect={test}")).concat();
        run_tests(sandbox, &format!("test_rbd.py{others}"), &[RBD_FEATURES])
    };
    if workspace::is_long() {
        let _ceph = RealCeph::start(sandbox, Store::Memory)?;
        let said = tests()?;
        let outcomes = Outcomes::of(&said);
        let passed = outcomes.passed.len();
        sh::step(&format!("on a real cluster {passed} tests pass and these fail: {:?}", outcomes.failed));
        min_passed = passed - failures.iter().filter(|(name, _)| outcomes.passed.contains(name)).count();
        sandbox.empty()?;
    }
    let _cluster = Server::cluster(sandbox, "")?;
    judge(&Outcomes::of(&tests()?), &failures, min_passed)
}

/// Runs the tests that `selection` selects, words for pytest, with these variables in their environment. Returns the output
/// of pytest.
pub(crate) fn run_tests(sandbox: &Sandbox, selection: &str, environment: &[&str]) -> Result<String> {
    let output = pytest(sandbox, selection, environment, PATIENCE)?;
    // 1 means that tests have failed, other codes that they have not run.
    if output.status.code().is_none_or(|code| code > 1) {
        // Standard error has the stacks of a test that hangs, each with its innermost call first.
        let stacks = String::from_utf8_lossy(&output.stderr);
        let stacks: Vec<_> = stacks.lines().take(STACK_LINES).collect();
        bail!("pytest ended with {}:\n{}\n{}", output.status, sh::tail(&output.stdout), stacks.join("\n"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs pytest in the sandbox, and keeps what it prints in `tests.out`.
fn pytest(sandbox: &Sandbox, selection: &str, environment: &[&str], limit: Duration) -> Result<Output> {
    let folder = sources(sandbox.release()).context("cannot get the tests of Ceph's source package")?;
    for file in FILES {
        fs::copy(folder.join(file), sandbox.path(file))?;
    }
    sandbox.write("conftest.py", CONFTEST)?;
    // A test that hangs is the last one in the output.
    let options = "-v -rA --tb=short -W ignore -p no:cacheprovider -o faulthandler_timeout=240";
    let environment = environment.join(" ");
    let line = format!("env PYTHONUNBUFFERED=1 {environment} python3 -m pytest {options} {selection}");
    let output = sh::output(&mut sandbox.ceph_command_within(&line, limit))?;
    sandbox.write("tests.out", &output.stdout)?;
    Ok(output)
}

/// Names of tests that have passed and failed.
pub(crate) struct Outcomes<'a> {
    passed: BTreeSet<&'a str>,
    failed: BTreeSet<&'a str>,
}

impl<'a> Outcomes<'a> {
    /// Parses the output of pytest.
    pub(crate) fn of(said: &'a str) -> Self {
        let names = |outcomes: &[&str]| -> BTreeSet<&'a str> {
            let lines = said.lines().filter_map(|line| line.split_once(' '));
            let of_tests = lines.filter(|(outcome, _)| outcomes.contains(outcome));
            of_tests.filter_map(|(_, test)| Some(test.split(' ').next()?.split_once("::")?.1)).collect()
        };
        let failed = names(&["FAILED", "ERROR"]);
        // A test that fails in its teardown has a line as passed, too.
        Self { passed: &names(&["PASSED"]) - &failed, failed }
    }

    /// Parses the output of a program that uses GoogleTest.
    pub(crate) fn of_gtest(said: &'a str) -> Self {
        // A line of a test ends with its time; the summary repeats the names without.
        let names = |mark: &str| -> BTreeSet<&'a str> {
            let lines = said.lines().filter_map(|line| line.trim().strip_prefix(mark)?.split_once(" ("));
            lines.map(|(name, _)| name.split(',').next().unwrap_or_default().trim()).collect()
        };
        let failed = names("[  FAILED  ] ");
        Self { passed: &names("[       OK ] ") - &failed, failed }
    }

    /// Returns whether a test has run.
    pub(crate) fn has(&self, test: &str) -> bool {
        self.passed.contains(test) || self.failed.contains(test)
    }
}

/// Fails unless exactly the tests fail that are listed with a reason, and at least `min_passed` pass.
pub(crate) fn judge(outcomes: &Outcomes<'_>, failures: &[(&str, &str)], min_passed: usize) -> Result<()> {
    let Outcomes { passed, failed } = outcomes;
    let surprises: Vec<_> =
        failed.iter().filter(|test| failures.iter().all(|(name, _)| name != *test)).collect();
    ensure!(surprises.is_empty(), "tests fail that should pass: {surprises:?} (see tests.out)");
    for (name, reason) in failures {
        ensure!(!passed.contains(name), "{name} passes although {reason}: remove it from the list");
        ensure!(failed.contains(name), "test {name} does not exist: remove it from the list");
    }
    ensure!(passed.len() >= min_passed, "only {} tests of at least {min_passed} have passed", passed.len());
    Ok(())
}

/// Parses a list of tests, each group of which follows a line `# REASON`.
pub(crate) fn listed(list: &str) -> Vec<(&str, &str)> {
    let mut reason = "";
    let mut tests = Vec::new();
    for line in list.lines() {
        match line.strip_prefix("# ") {
            Some(next) => reason = next,
            None => tests.push((line, reason)),
        }
    }
    tests
}

/// Returns a folder with [`FILES`], taken from the source package the first time.
///
/// 16.2 runs the tests of 18.2: its own need `nose`, which Debian 12 no longer has.
fn sources(release: Release) -> Result<PathBuf> {
    let suite = release.max(Release::Reef).suite();
    cached(&format!("roots/ceph-tests/{suite}"), FOLDER, |folder| {
        let archive = Apt::open_sources(suite)?.upstream_archive("ceph", folder)?;
        let mut tar = Command::new("tar");
        // It stops once it has all of them, which saves the rest of a large archive.
        tar.args(["--extract", "--xz", "--occurrence=1", "--strip-components=4", "--wildcards", "--file"]);
        tar.arg(&archive).args(FILES.map(|file| format!("*/{FOLDER}/{file}"))).current_dir(folder);
        sh::text(&mut tar)?;
        Ok(fs::remove_file(archive)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &[(&str, &str)] = &[("TestB::test_x", "no b"), ("TestB::test_y", "no b")];

    #[test]
    fn exactly_the_listed_tests_may_fail() {
        let passed: String = (0..5).map(|n| format!("PASSED test_rados.py::TestA::test_{n}\n")).collect();
        let failed =
            "FAILED test_rados.py::TestB::test_x - OSError: no\nERROR test_rados.py::TestB::test_y - no\n";
        let said = format!("....F\n=== short test summary info ===\n{passed}{failed}5 passed\n");
        let judged = |said: &str| judge(&Outcomes::of(said), LISTED, 5).map_err(|error| error.to_string());
        assert_eq!(judged(&said), Ok(()));
        for (changed, error) in [
            (said.clone() + "ERROR test_rados.py::TestA::test_1 - assert 1 == 2\n", "[\"TestA::test_1\"]"),
            (said.replace("FAILED", "PASSED"), "TestB::test_x passes although no b"),
            (said.replace("TestB::test_y", "TestC::test_y"), "[\"TestC::test_y\"]"),
            (said.replace("ERROR test_rados.py::TestB", ""), "test TestB::test_y does not exist"),
            (said.replace("PASSED test_rados.py::TestA::test_0", ""), "only 4 tests of at least 5"),
        ] {
            assert!(judged(&changed).is_err_and(|said| said.contains(error)), "{error}");
        }
        assert!(judged("").is_err());
    }

    #[test]
    fn a_list_has_a_reason_for_each_test() {
        assert_eq!(listed("# a\nx\ny\n# b\nz\n"), [("x", "a"), ("y", "a"), ("z", "b")]);
        let all = listed(PACIFIC_RBD_FAILURES);
        assert!(all.iter().all(|(test, reason)| test.contains("test_") && !reason.is_empty()));
    }
}
