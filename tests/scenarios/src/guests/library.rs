//! Our library in a sandbox. (Replaced by the C library's own scenarios.)

use anyhow::Result;
use onego_sandbox::{Sandbox, sh, workspace};
use std::fs;
use std::os::unix::fs::symlink;

/// Lays the library out in the folder `onego`.
pub(super) fn prepare(sandbox: &Sandbox) -> Result<()> {
    let tested = sandbox.onego_program().with_file_name("deps/libonego_capi.so");
    let library = if tested.exists() {
        tested
    } else {
        sh::run(workspace::cargo().args(["build", "--quiet", "--profile=capi", "--package=onego-capi"]))?;
        workspace::target()?.join("capi/libonego_capi.so")
    };
    fs::create_dir_all(sandbox.path("onego/lib"))?;
    fs::copy(library, sandbox.path("onego/lib/librados.so.2"))?;
    Ok(symlink("librados.so.2", sandbox.path("onego/lib/librbd.so.1"))?)
}

/// Returns the variable by which programs find it.
pub(super) fn environment(sandbox: &Sandbox) -> String {
    format!("LD_LIBRARY_PATH={}", sandbox.path("onego/lib").display())
}
