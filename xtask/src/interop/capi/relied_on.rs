//! What programs in C rely on.

use super::library::ours;
use crate::cluster::Stage;
use crate::interop::steps::says;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// Programs in C rely on the same of Ceph's library and of ours: one program, run on both.
pub(super) fn run(workspace: &Workspace, stage: &Stage) -> Result<()> {
    let (crates, program) = (workspace.workspace_root.join("crates/capi"), stage.path("traps"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg("-I").arg(crates.join("include")).arg(crates.join("tests/traps.c"));
    // Ceph's libraries have two names, ours has both.
    cc.arg("-Wl,--allow-shlib-undefined")
        .args([stage.path("librados.so.2"), stage.path("librbd.so.1")])
        .arg("-lpthread");
    sh::text(&mut cc)?;
    says(&stage.ceph("./traps ceph.conf")?, "all is well")?;
    says(&ours(stage, "./traps ceph.conf ours")?, "all is well")
}
