//! Tests under the address sanitizer, loom and Miri.

use crate::workspace::Workspace;
use anyhow::Result;
use xshell::{Cmd, cmd};

/// Crates with unsafe code, and those through which most of it is reached, without the prefix `onego-`.
const CRATES: &str = "buf engine cipher verbs ceph cluster nfs-server service testkit";

/// Tests without system calls, which Miri can run.
const MIRI: &[(&str, &[&str])] = &[
    ("onego-buf", &[]),
    ("onego-engine", &["table::", "zero_copy::notifier", "zero_copy::policy", "zero_copy::tracker"]),
];

/// An explicit target keeps the sanitizer out of build scripts and procedural macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only build the C library with the address sanitizer, and print its path
    #[arg(long)]
    capi: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let sh = &workspace.sh;
    if options.capi {
        address_sanitizer(workspace, cmd!(sh, "cargo build --quiet --package onego-capi --target {TARGET}"))?;
        println!("{}", workspace.target.join(TARGET).join("debug/libonego_capi.so").display());
        return Ok(());
    }
    let packages = CRATES.split(' ').map(|name| format!("--package=onego-{name}"));
    let test = cmd!(sh, "cargo test --no-fail-fast --lib --tests --target {TARGET} {packages...}");
    // The skipped test is about glibc's allocator, which the sanitizer replaces.
    let skip = ["--", "--skip", "small_blocks_that_were_freed_go_back_to_the_system"];
    address_sanitizer(workspace, test.args(skip))?;
    // Crates that share memory between threads without a lock.
    for name in ["onego-buf", "onego-engine"] {
        let loom = cmd!(sh, "cargo test --release --lib --package {name} orders");
        loom.env("RUSTFLAGS", "--cfg loom").run()?;
    }
    miri(workspace)
}

fn address_sanitizer(workspace: &Workspace, cargo: Cmd<'_>) -> Result<()> {
    let leaks = workspace.root.join("xtask/data/leaks.supp");
    // Allows the unstable flag on the stable toolchain.
    let cargo = cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    Ok(cargo.env("LSAN_OPTIONS", format!("suppressions={}", leaks.display())).run()?)
}

/// Runs tests under Miri where a nightly toolchain has it.
fn miri(workspace: &Workspace) -> Result<()> {
    let sh = &workspace.sh;
    let miri = ["run", "nightly", "cargo", "miri"];
    if cmd!(sh, "rustup {miri...} --version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
        eprintln!("NOT RUN: tests under Miri, which is missing (rustup +nightly component add miri)");
        return Ok(());
    }
    for &(name, tests) in MIRI {
        cmd!(sh, "rustup {miri...} test --lib --package {name} -- {tests...}")
            // Property tests read regression files; few cases of each, because Miri is slow.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", "16")
            .run()?;
    }
    Ok(())
}
