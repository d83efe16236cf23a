//! What no test sees by itself: accesses to memory that is not there any more, and orders of events that hardly ever
//! come.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;

/// The crates that have unsafe code, and those through which most of it is reached.
const CRATES: &[&str] = &["onego-buf", "onego-engine", "onego-ceph", "onego-server", "onego-testkit"];

/// The sanitizer needs a target of its own, or it would go into build scripts and procedural macros too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the tests under the address sanitizer, then loom's over what is lock-free.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    sh::step("tests under the address sanitizer");
    let mut command = workspace.cargo();
    // The sanitizer's flag is unstable in name only: this lets the toolchain of the workspace take it.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    let leaks = workspace.workspace_root.join("xtask/src/leaks.supp");
    command.env("LSAN_OPTIONS", format!("suppressions={}", leaks.display()));
    command.args(["test", "--no-fail-fast", "--lib", "--tests", "--target", TARGET]);
    command.args(CRATES.iter().flat_map(|name| ["-p", name]));
    sh::run(&mut command)?;

    sh::step("every order of events, with loom");
    let mut command = workspace.cargo();
    command.env("RUSTFLAGS", "--cfg loom").args([
        "test",
        "--release",
        "--lib",
        "-p",
        "onego-engine",
        "orders",
    ]);
    sh::run(&mut command)
}
