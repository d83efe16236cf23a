//! Programs that were built for librados and librbd, on our library under these names.

pub(super) mod address_sanitizer;
pub(super) mod bindings;
pub(super) mod daemons;
pub(super) mod guest;
mod library;
pub(super) mod memcheck;
mod names;
mod programs;
mod relied_on;
pub(super) mod soak;
pub(super) mod tcmu;

use crate::cluster::{Embedded, RealCeph, Stage, Store};
use anyhow::Result;

/// Programs of a release on our embedded cluster.
pub(super) fn on_ours(stage: &Stage) -> Result<()> {
    let workspace = library::prepare(stage)?;
    names::are_the_same(stage)?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    programs::run(stage)?;
    relied_on::run(&workspace, stage, relied_on::PROGRAMS)
}

/// Programs of a release on a real cluster of that release.
pub(super) fn on_real_ceph(stage: &Stage) -> Result<()> {
    let workspace = library::prepare(stage)?;
    names::are_the_same(stage)?;
    let _ceph = RealCeph::start(stage, Store::Memory)?;
    programs::run(stage)?;
    relied_on::run(&workspace, stage, relied_on::OF_CLASSES)
}
