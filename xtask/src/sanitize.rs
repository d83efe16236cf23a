//! What no test sees by itself: accesses to memory that is not there any more, and orders of events that hardly ever
//! come.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// The crates that have unsafe code, and those through which most of it is reached.
const CRATES: &[&str] = &[
    "onego-buf",
    "onego-engine",
    "onego-cipher",
    "onego-verbs",
    "onego-ceph",
    "onego-cluster",
    "onego-nfs-server",
    "onego-service",
    "onego-testkit",
];

/// The crates that share memory between threads without a lock that covers all of it.
const LOCK_FREE: &[&str] = &["onego-buf", "onego-engine"];

/// The tests that Miri can run: those that make no system calls.
const MIRI: &[(&str, &[&str])] = &[
    ("onego-buf", &[]),
    ("onego-engine", &["table::", "zero_copy::notifier", "zero_copy::policy", "zero_copy::tracker"]),
];

/// The test that asks what glibc's allocator gives back to the system: the sanitizer has an allocator of its own.
const OF_GLIBC: &str = "small_blocks_that_were_freed_go_back_to_the_system";

/// The sanitizer needs a target of its own, or it would go into build scripts and procedural macros too.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests under the address sanitizer, loom's over what threads share, and Miri's where there is Miri.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    sh::step("tests under the address sanitizer");
    let mut command = sanitized(&workspace);
    let leaks = workspace.workspace_root.join("xtask/src/leaks.supp");
    command.env("LSAN_OPTIONS", format!("suppressions={}", leaks.display()));
    command.args(["test", "--no-fail-fast", "--lib", "--tests", "--target", TARGET]);
    command.args(CRATES.iter().flat_map(|name| ["-p", name]));
    command.args(["--", "--skip", OF_GLIBC]);
    sh::run(&mut command)?;

    for name in LOCK_FREE {
        sh::step(&format!("every order of events in {name}, with loom"));
        let mut command = workspace.cargo();
        command.env("RUSTFLAGS", "--cfg loom");
        command.args(["test", "--release", "--lib", "-p", name, "orders"]);
        sh::run(&mut command)?;
    }
    miri(&workspace)
}

/// Cargo that builds with the sanitizer, for [`TARGET`].
pub(crate) fn sanitized(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo();
    // The sanitizer's flag is unstable in name only: this lets the toolchain of the workspace take it.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    command
}

/// Runs what Miri can under it. It is a component of nightly toolchains, which not everybody has: a machine without it
/// leaves this out and says so.
fn miri(workspace: &Workspace) -> Result<()> {
    let cargo = || {
        let mut command = Command::new("rustup");
        command.current_dir(&workspace.workspace_root).args(["run", "nightly", "cargo", "miri"]);
        command
    };
    let there = sh::have("rustup") && sh::output(cargo().arg("--version"))?.status.success();
    if !there {
        sh::step(
            "NOT RUN: the tests under Miri, which is not installed (rustup +nightly component add miri)",
        );
        return Ok(());
    }
    for (name, tests) in MIRI {
        sh::step(&format!("tests of {name} under Miri"));
        let mut command = cargo();
        // Property tests look for their regressions in files; few cases of each, because Miri is slow.
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "16");
        command.args(["test", "--lib", "-p", name, "--"]).args(*tests);
        sh::run(&mut command)?;
    }
    Ok(())
}
