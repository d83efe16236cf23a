//! What POSIX says of file systems, asked by the tests of pjdfstest: of our server of NFS, mounted by the kernel in a
//! guest.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::guest::{self, Guest, NFS};
use crate::sh;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::PathBuf;

/// What is done in the guest, after the lines that say with what.
const SCRIPT: &str = include_str!("pjdfstest.sh");

/// The release of the tests (<https://crates.io/crates/pjdfstest>).
const VERSION: &str = "0.2.2";

/// Tests that fail, each with its reason.
const FAILURES: &[(&str, &str)] = &[
    ("utimensat::y2038", "it wants a time beyond 2106, where the protocol's 32 bits of seconds end"),
    (
        "unlink::open_file_not_freed",
        "the client renames an open file that is removed, since the server does not know",
    ),
];

/// The file system in memory.
pub(crate) fn on_memory(stage: &Stage) -> Result<()> {
    let _server = Embedded::start_nfs(stage, "--mem --insecure")?;
    run(stage)
}

/// A directory.
pub(crate) fn on_directory(stage: &Stage) -> Result<()> {
    let _server = Embedded::start_nfs_directory(stage, "export")?;
    run(stage)
}

/// Runs all tests but those that ask for what Linux or NFS does not have.
fn run(stage: &Stage) -> Result<()> {
    let program = program(stage).context("cannot get pjdfstest")?;
    let guest = Guest::prepare(stage, &NFS)?;
    let names: Vec<_> = FAILURES.iter().map(|(name, _)| format!("{name:?}")).collect();
    let script = format!("SERVER={ADDRESS}\nFAILURES='{}'\n{SCRIPT}", names.join(", "));
    let said = guest.run(stage, &script, &[&program.to_string_lossy()]);
    let said = said.context("pjdfstest finds faults")?;
    let passed = said.lines().find_map(passed);
    // The summary of a run in which next to nothing was tried would say that nothing failed, too.
    ensure!(passed.is_some_and(|passed| passed > 300), "pjdfstest has not tried what it can:\n{said}");
    Ok(())
}

/// How many tests have passed, in a line like `Summary: 0 failed, 5 skipped, 7 passed, 0 expected failures, 12 total`.
fn passed(line: &str) -> Option<u32> {
    let counts = line.strip_prefix("Summary: ")?;
    counts.split(", ").find_map(|count| count.strip_suffix(" passed"))?.parse().ok()
}

/// The program, built the first time.
fn program(stage: &Stage) -> Result<PathBuf> {
    let folder = guest::keep(&stage.cache(guest::CACHE), "pjdfstest", VERSION, |folder| {
        sh::step("building pjdfstest (once)");
        let mut cargo = sh::cargo();
        cargo.args(["install", "--quiet", "--locked", "--debug", "--version", VERSION, "--root"]).arg(folder);
        let target = folder.join("target");
        cargo.arg("pjdfstest").env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_STRIP", "symbols");
        sh::run(&mut cargo)?;
        Ok(std::fs::remove_dir_all(target)?)
    })?;
    let program = folder.join("bin/pjdfstest");
    if program.is_file() { Ok(program) } else { bail!("cargo has not installed {}", program.display()) }
}

#[cfg(test)]
mod tests {
    use super::passed;

    #[test]
    fn the_summary_is_read() {
        let line = "Summary: 0 failed, 5 skipped, 372 passed, 1 expected failures, 378 total";
        assert_eq!(passed(line), Some(372));
        assert_eq!(passed("chmod::errno ok"), None);
    }
}
