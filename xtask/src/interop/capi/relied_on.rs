//! What programs in C rely on.

use super::library::ours;
use crate::cluster::Stage;
use crate::interop::steps::says;
use crate::sh;
use crate::workspace::Workspace;
use anyhow::Result;
use std::process::Command;

/// The programs, and what they are told of a library that is ours.
const PROGRAMS: [(&str, &str); 2] = [("traps", " ours"), ("images", "")];

/// Programs in C rely on the same of Ceph's library and of ours: each program is run on both.
pub(super) fn run(workspace: &Workspace, stage: &Stage) -> Result<()> {
    let crates = workspace.workspace_root.join("crates/capi");
    for (program, of_ours) in PROGRAMS {
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(stage.path(program));
        cc.arg("-I").arg(crates.join("include")).arg(crates.join(format!("tests/{program}.c")));
        // Ceph's libraries have two names, ours has both.
        cc.arg("-Wl,--allow-shlib-undefined")
            .args([stage.path("librados.so.2"), stage.path("librbd.so.1")])
            .arg("-lpthread");
        sh::text(&mut cc)?;
        says(&stage.ceph(&format!("./{program} ceph.conf"))?, "all is well")?;
        says(&ours(stage, &format!("./{program} ceph.conf{of_ours}"))?, "all is well")?;
    }
    Ok(())
}
