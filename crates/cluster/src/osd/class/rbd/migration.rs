//! The class `rbd`: images that are being moved (ceph `src/cls/rbd/cls_rbd.cc`).

use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;

const MIGRATION: &str = "migration";

/// Where an image notes that it is being moved.
enum Mark {
    /// In its features.
    Features(u64),
    /// In the text that a header of format 1 begins with.
    Text { is_migrating: bool },
}

impl Mark {
    /// ENXIO: the object is no header.
    fn read(context: &Context<'_>) -> Outcome<Self> {
        if let Some(features) = context.get_opt("features")? {
            return Ok(Self::Features(features));
        }
        let text = context.state.read(0, Format1Header::TEXT.len() as u64, context.zeros).to_vec();
        let is_migrating = text == Format1Header::MIGRATING_TEXT;
        if is_migrating || text == Format1Header::TEXT {
            Ok(Self::Text { is_migrating })
        } else {
            Err(Errno::NXIO)
        }
    }

    fn is_set(&self) -> bool {
        match self {
            Self::Features(features) => features & feature::MIGRATING != 0,
            Self::Text { is_migrating } => *is_migrating,
        }
    }

    /// Makes the mark, or takes it away.
    fn write(&self, context: &mut Context<'_>, is_migrating: bool) {
        match self {
            Self::Features(features) => {
                let others = features & !feature::MIGRATING;
                context.set("features", &if is_migrating { others | feature::MIGRATING } else { others });
            }
            Self::Text { .. } => {
                let text = if is_migrating { Format1Header::MIGRATING_TEXT } else { Format1Header::TEXT };
                context.changes();
                context.state.write(0, text.to_vec().into());
            }
        }
    }
}

pub(super) fn set(context: &mut Context<'_>, call: MigrationSet) -> Outcome<()> {
    if context.raw(MIGRATION).is_ok() {
        return Err(Errno::EXIST);
    }
    let mark = Mark::read(context)?;
    let is_destination = call.spec.side == migration_side::DESTINATION;
    match mark {
        // A destination is made with the feature.
        Mark::Features(_) if mark.is_set() && !is_destination => return Err(Errno::EXIST),
        Mark::Text { is_migrating: true } => return Err(Errno::EXIST),
        // Nothing is moved to an image of format 1.
        Mark::Text { .. } if call.spec.side != migration_side::SOURCE => return Err(Errno::INVAL),
        _ => mark.write(context, true),
    }
    context.set(MIGRATION, &call.spec);
    Ok(())
}

/// What is known about the migration. EINVAL: there is none.
fn read(context: &Context<'_>) -> Outcome<MigrationSpec> {
    if !Mark::read(context)?.is_set() {
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
    let mark = Mark::read(context)?;
    if matches!(mark, Mark::Text { is_migrating: false }) {
        return Err(Errno::INVAL);
    }
    context.unset(MIGRATION)?;
    mark.write(context, false);
    Ok(())
}
