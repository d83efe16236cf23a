//! What programs in C rely on.

use super::library::ours;
use crate::cluster::Stage;
use crate::interop::steps::says;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// The programs, as the crate has them.
const PROGRAMS: [&str; 3] = ["traps", "objects", "images"];

/// Programs in C rely on the same of Ceph's library and of ours: each is run on both.
pub(super) fn run(workspace: &Workspace, stage: &Stage) -> Result<()> {
    let crates = workspace.workspace_root.join("crates/capi");
    for name in PROGRAMS {
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(stage.path(name));
        cc.arg("-I").arg(crates.join("include")).arg(crates.join("tests").join(name).with_extension("c"));
        // Ceph's libraries have two names, ours has both.
        cc.arg("-Wl,--allow-shlib-undefined")
            .args([stage.path("librados.so.2"), stage.path("librbd.so.1")])
            .arg("-lpthread");
        sh::text(&mut cc)?;
        says(&stage.ceph(&format!("./{name} ceph.conf"))?, "all is well")?;
        says(&ours(stage, &format!("./{name} ceph.conf ours"))?, "all is well")?;
    }
    Ok(())
}
