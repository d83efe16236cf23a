//! The class `rbd`: images that are being moved (ceph `src/cls/rbd/cls_rbd.cc`).

use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;

const MIGRATION: &str = "migration";

/// The image's features. ENXIO: it has none, and neither is it of format 1, whose migration is not kept here.
fn features(context: &Context<'_>) -> Outcome<u64> {
    context.get_opt("features")?.ok_or(Errno::NXIO)
}

pub(super) fn set(context: &mut Context<'_>, call: MigrationSet) -> Outcome<()> {
    if context.raw(MIGRATION).is_ok() {
        return Err(Errno::EXIST);
    }
    let features = features(context)?;
    // A destination is made with the feature.
    if features & feature::MIGRATING != 0 && call.spec.side != migration_side::DESTINATION {
        return Err(Errno::EXIST);
    }
    context.set("features", &(features | feature::MIGRATING));
    context.set(MIGRATION, &call.spec);
    Ok(())
}

/// What is known about the migration. EINVAL: there is none.
fn read(context: &Context<'_>) -> Outcome<MigrationSpec> {
    if features(context)? & feature::MIGRATING == 0 {
        return Err(Errno::INVAL);
    }
    context.get(MIGRATION)
}

pub(super) fn set_state(context: &mut Context<'_>, call: MigrationSetState) -> Outcome<()> {
    let spec = read(context)?;
    context.set(MIGRATION, &MigrationSpec { state: call.state, state_description: call.description, ..spec });
    Ok(())
}

pub(super) fn get(context: &mut Context<'_>, _: MigrationGet) -> Outcome<MigrationSpec> {
    read(context)
}

pub(super) fn remove(context: &mut Context<'_>, _: MigrationRemove) -> Outcome<()> {
    let features = features(context)?;
    context.unset(MIGRATION)?;
    context.set("features", &(features & !feature::MIGRATING));
    Ok(())
}
