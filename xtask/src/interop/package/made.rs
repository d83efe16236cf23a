//! What the scenarios install.

use crate::cluster::Stage;
use crate::dist;
use crate::workspace::Workspace;
use anyhow::Result;
use std::path::PathBuf;

/// The static program: the one of the stage, if that is such a one, or else the tree's.
pub(super) fn program(stage: &Stage) -> Result<PathBuf> {
    let given = stage.onego_program();
    dist::program(&Workspace::load()?, dist::is_static(given)?.then_some(given))
}

/// All that users install, made of the static program.
pub(super) fn files(stage: &Stage) -> Result<dist::Files> {
    dist::pack(&Workspace::load()?, &program(stage)?, &stage.path("files"))
}
