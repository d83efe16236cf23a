//! What programs in C rely on.

use super::library::ours;
use crate::cluster::Stage;
use crate::interop::steps::says;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// The programs, as the crate has them.
pub(super) const PROGRAMS: &[&str] = &["traps", "objects", "images", "old_images", "mirroring"];

/// Those whose answers come from the cluster's classes: a real one is asked, too.
pub(super) const OF_CLASSES: &[&str] = &["mirroring"];

/// Programs in C rely on the same of Ceph's library and of ours: each is run on both.
pub(super) fn run(workspace: &Workspace, stage: &Stage, programs: &[&str]) -> Result<()> {
    for name in programs {
        compile(workspace, stage, name, ".", &[])?;
        says(&stage.ceph(&format!("./{name} ceph.conf"))?, "all is well")?;
        says(&ours(stage, &format!("./{name} ceph.conf ours"))?, "all is well")?;
    }
    Ok(())
}

/// Compiles one of the programs, with the libraries in a folder of the stage. Ceph's have two names, ours has both.
pub(super) fn compile(
    workspace: &Workspace,
    stage: &Stage,
    name: &str,
    libraries: &str,
    flags: &[&str],
) -> Result<()> {
    let crates = workspace.workspace_root.join("crates/capi");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror"]).args(flags).arg("-o").arg(stage.path(name));
    cc.arg("-I").arg(crates.join("include")).arg(crates.join("tests").join(name).with_extension("c"));
    let folder = stage.path(libraries);
    cc.arg("-Wl,--allow-shlib-undefined")
        .args([folder.join("librados.so.2"), folder.join("librbd.so.1")])
        .arg("-lpthread");
    sh::text(&mut cc).map(drop)
}
