//! Our library on a stage.

use crate::capi;
use crate::cluster::Stage;
use crate::workspace::Workspace;
use anyhow::Result;

/// Lays the library out on the stage.
pub(super) fn prepare(stage: &Stage) -> Result<Workspace> {
    let workspace = Workspace::load()?;
    // The tests of the crate have built one beside the program, which is nearly as quick.
    let tested = stage.onego_program().with_file_name("deps/libonego_capi.so");
    let library = if tested.exists() { tested } else { capi::build(&workspace)? };
    capi::install(&workspace, &library, &stage.path("onego"))?;
    Ok(workspace)
}

/// The variable by which programs find it.
pub(super) fn environment(stage: &Stage) -> String {
    format!("LD_LIBRARY_PATH={}", stage.path("onego/lib").display())
}

/// Runs a line on our library.
pub(super) fn ours(stage: &Stage, line: &str) -> Result<String> {
    stage.ceph(&format!("env {} {line}", environment(stage)))
}
