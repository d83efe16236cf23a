//! The programs in C where every memory access is watched: by valgrind, and by the address sanitizer.

use super::library::{self, environment};
use super::relied_on::{self, PROGRAMS};
use crate::steps::says;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, sh, workspace};
use std::fs;

/// Options of valgrind. Leaks are read from its logs, one a process: a forked process has lost what the threads of its
/// parent own.
const VALGRIND: &str = "valgrind --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=none --fair-sched=yes --suppressions=memcheck.supp";

/// Suppresses branches of our library on uninitialized bytes: the compiler may look at the value in an `Option` before
/// the tag, which changes nothing. Such bytes in system calls and in the program are errors.
const SUPPRESSIONS: &str = "\
{
  absent-values
  Memcheck:Cond
  obj:*/onego/lib/librados.so.2
}
";

/// The sanitizer needs an explicit target, or build scripts and procedural macros would be built with it.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Fails if valgrind sees an invalid access, use of uninitialized memory or a leak. All programs take three minutes.
pub(super) fn under_valgrind(sandbox: &Sandbox) -> Result<()> {
    library::prepare(sandbox)?;
    sandbox.write("memcheck.supp", SUPPRESSIONS)?;
    for name in PROGRAMS {
        relied_on::compile(sandbox, name, "onego/lib", "")?;
        let run = run(sandbox, name, &format!("timeout 900 {VALGRIND} --log-file={name}.log.%p"));
        let log = first_log(sandbox, name)?;
        run.with_context(|| log.clone())?;
        says(&log, "definitely lost: 0 bytes in 0 blocks")?;
    }
    Ok(())
}

/// Fails if the sanitizer sees an access to freed memory or outside of an allocation.
pub(super) fn with_address_sanitizer(sandbox: &Sandbox) -> Result<()> {
    let mut cargo = workspace::cargo();
    // The flag is unstable in name only; this makes the workspace's toolchain accept it.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address");
    sh::run(cargo.args(["build", "--quiet", "--target", TARGET, "--package=onego-capi"]))?;
    library::lay_out(sandbox, &workspace::target()?.join(TARGET).join("debug/libonego_capi.so"))?;
    for name in PROGRAMS {
        relied_on::compile(sandbox, name, "onego/lib", "-fsanitize=address")?;
        // Leaks are valgrind's to find: here, threads that run until the end hide them.
        run(sandbox, name, "env ASAN_OPTIONS=detect_leaks=0 timeout 600")?;
    }
    Ok(())
}

/// Runs a program on our library in the root in which it was compiled.
fn run(sandbox: &Sandbox, name: &str, runner: &str) -> Result<()> {
    let line = format!("env {} {runner} ./{name} ceph.conf ours", environment(sandbox));
    let output = sh::output(&mut sandbox.tool_daemon(&line))?;
    let said = sh::both(&output);
    ensure!(output.status.success(), "{name}: {}\n{}", output.status, sh::tail(said.as_bytes()));
    says(&said, "all is well")
}

/// Returns valgrind's log of a program's first process.
fn first_log(sandbox: &Sandbox, name: &str) -> Result<String> {
    let files =
        fs::read_dir(sandbox.path("."))?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = files.filter_map(|file| file.strip_prefix(&format!("{name}.log."))?.parse::<u32>().ok());
    let first = pids.min().with_context(|| format!("valgrind has no log of {name}"))?;
    sandbox.read(&format!("{name}.log.{first}"))
}
