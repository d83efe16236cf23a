//! pjdfstest, which tests file systems for conformance with POSIX, on our servers by the kernel's client.

use super::kernel::mounting;
use anyhow::{Context as _, Result};
use onego_sandbox::{Boot, NFS, Sandbox, Server, cached, sh, workspace};
use std::fs;
use std::path::PathBuf;

/// Release of the tests (<https://crates.io/crates/pjdfstest>).
const VERSION: &str = "0.2.2";

/// Tests that fail, each with its reason.
const FAILURES: &[(&str, &str)] = &[
    ("utimensat::y2038", "it sets a time past 2106, where the protocol's 32 bits of seconds end"),
    ("unlink::open_file_not_freed", "the client renames an open file that is removed"),
];

/// Tests the file system in memory.
pub(super) fn on_memory(sandbox: &Sandbox) -> Result<()> {
    let _server = Server::nfs(sandbox, "--mem --insecure")?;
    run(sandbox)
}

/// Tests a directory.
pub(super) fn on_directory(sandbox: &Sandbox) -> Result<()> {
    let _server = Server::nfs_directory(sandbox, "export")?;
    run(sandbox)
}

/// Runs all tests but those of features that Linux or NFS lacks.
fn run(sandbox: &Sandbox) -> Result<()> {
    let program = program().context("cannot install pjdfstest")?;
    let names: Vec<_> = FAILURES.iter().map(|(name, _)| format!("{name:?}")).collect();
    let mount = "OPTIONS=proto=tcp,port=2049,mountport=2049";
    let variables = format!("{mount}\nFAILURES='{}'", names.join(", "));
    let boot = Boot::new(sandbox, &NFS)?.programs(&["rdma", &program.to_string_lossy()]);
    let boot = boot.check("pjdfstest", &mounting(&variables, include_str!("pjdfstest.sh")));
    boot.start("guest")?.check("pjdfstest").map(drop)
}

/// Returns the program, built the first time.
fn program() -> Result<PathBuf> {
    let folder = cached("roots/pjdfstest", VERSION, |folder| {
        let target = folder.join("target");
        let mut cargo = workspace::cargo();
        cargo.args(["install", "--quiet", "--locked", "--debug", "--version", VERSION, "--root"]).arg(folder);
        cargo.arg("pjdfstest").env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_STRIP", "symbols");
        sh::run(&mut cargo)?;
        Ok(fs::remove_dir_all(target)?)
    })?;
    Ok(folder.join("bin/pjdfstest"))
}
