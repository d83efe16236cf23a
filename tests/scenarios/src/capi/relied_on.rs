//! C programs that assert the behaviour that callers of librados and librbd rely on.

use super::library::{self, ours};
use super::names::copy_of_release;
use crate::steps::{ensure_pool, says};
use anyhow::Result;
use onego_sandbox::{Sandbox, sh, workspace};

/// Programs in `crates/capi/tests`.
pub(super) const PROGRAMS: &[&str] = &["traps", "objects", "images", "old_images", "mirroring", "edges"];

/// Programs whose results come from object classes, so a real cluster has to confirm them.
pub(super) const OF_CLASSES: &[&str] = &["mirroring"];

/// Runs programs on Ceph's library and on ours.
pub(super) fn holds(sandbox: &Sandbox, programs: &[&str]) -> Result<()> {
    library::prepare(sandbox)?;
    ensure_pool(sandbox)?;
    ["librados.so.2", "librbd.so.1"].iter().try_for_each(|library| copy_of_release(sandbox, library))?;
    for name in programs {
        compile(sandbox, name, ".", "")?;
        says(&sandbox.ceph(&format!("./{name} ceph.conf"))?, "all is well")?;
        says(&ours(sandbox, &format!("./{name} ceph.conf ours"))?, "all is well")?;
    }
    Ok(())
}

/// Compiles a program for the libraries in a folder of the sandbox. Ceph's are two files, ours is one with both names.
pub(super) fn compile(sandbox: &Sandbox, name: &str, libraries: &str, flags: &str) -> Result<()> {
    let sources = ["include", "tests"].map(|folder| workspace::root().join("crates/capi").join(folder));
    sh::text(sandbox.host_command("cp", "--recursive --update").args(sources).arg("."))?;
    let line = format!(
        "gcc-12 -std=gnu11 -g -Wall -Wextra -Werror {flags} -o {name} -I include tests/{name}.c \
         -Wl,--allow-shlib-undefined {libraries}/librados.so.2 {libraries}/librbd.so.1 -lpthread"
    );
    sandbox.tool(&line).map(drop)
}
