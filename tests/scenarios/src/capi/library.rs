//! Our library in a sandbox, under the names of Ceph's.

use anyhow::{Context as _, Result};
use onego_sandbox::{Sandbox, sh, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Lays the library out below `onego/lib`.
pub(crate) fn prepare(sandbox: &Sandbox) -> Result<()> {
    lay_out(sandbox, &library(sandbox)?)
}

/// Copies a library to `onego/lib`, where the one file has both names.
pub(super) fn lay_out(sandbox: &Sandbox, library: &Path) -> Result<()> {
    let folder = sandbox.path("onego/lib");
    fs::create_dir_all(&folder)?;
    fs::copy(library, folder.join("librados.so.2"))
        .with_context(|| format!("cannot copy {}", library.display()))?;
    Ok(symlink("librados.so.2", folder.join("librbd.so.1"))?)
}

/// Returns `ONEGO_CAPI`, the library that was built with a given program, or the tree's, built as cargo's tests build it.
fn library(sandbox: &Sandbox) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("ONEGO_CAPI") {
        return Ok(given.into());
    }
    let built = workspace::target()?.join("debug/libonego_capi.so");
    let beside = sandbox.onego_program().with_file_name("deps/libonego_capi.so");
    // Next to a program of the tree lies what an earlier build has left.
    if beside.exists() && !beside.starts_with(workspace::target()?) {
        return Ok(beside);
    }
    sh::run(workspace::cargo().args(["build", "--quiet", "--profile=test", "--package=onego-capi"]))?;
    Ok(built)
}

/// Returns the variable that makes programs load the library.
pub(crate) fn environment(sandbox: &Sandbox) -> String {
    format!("LD_LIBRARY_PATH={}", sandbox.path("onego/lib").display())
}

/// Runs a line of a program of the release on the library and returns what it printed.
pub(crate) fn ours(sandbox: &Sandbox, line: &str) -> Result<String> {
    sandbox.ceph(&format!("env {} {line}", environment(sandbox)))
}
