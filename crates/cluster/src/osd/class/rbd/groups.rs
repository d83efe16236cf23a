//! The class `rbd`: groups of images (ceph `src/cls/rbd/cls_rbd.cc`).

use super::directory;
use super::header::{clear_op_features, set_op_features};
use crate::osd::class::context::{Context, at_most};
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_msgr::encoding::Decode;
use onego_wire::Reader;

/// What the key of an image of a group starts with; its pool in 16 hexadecimal digits, `_` and its id follow.
const IMAGE: &str = "image_";

/// What the key of a snapshot of a group starts with; its id follows.
const SNAPSHOT: &str = "snapshot_";

/// The key of an image's group.
const GROUP: &str = "rbd_group_ref";

pub(super) fn dir_list(context: &mut Context<'_>, call: GroupDirList) -> Outcome<Images> {
    directory::names(context, &call.after, call.max)
}

pub(super) fn dir_add(context: &mut Context<'_>, call: GroupDirAdd) -> Outcome<()> {
    directory::add(context, &call.name, &call.id, false)
}

pub(super) fn dir_rename(context: &mut Context<'_>, call: GroupDirRename) -> Outcome<()> {
    directory::rename(context, &call.from, &call.to, &call.id)
}

pub(super) fn dir_remove(context: &mut Context<'_>, call: GroupDirRemove) -> Outcome<()> {
    directory::remove(context, &call.name, &call.id)
}

/// The key of an image, without its prefix.
fn image_suffix(spec: &GroupImageSpec) -> String {
    format!("{:016x}_{}", spec.pool, spec.image_id)
}

fn image_of(suffix: &str) -> Option<GroupImageSpec> {
    let (pool, image_id) = suffix.split_once('_')?;
    let pool = u64::from_str_radix(pool, 16).ok()?.cast_signed();
    Some(GroupImageSpec { image_id: image_id.to_owned(), pool })
}

pub(super) fn image_set(context: &mut Context<'_>, call: GroupImageSet) -> Outcome<()> {
    let GroupImageStatus { spec, state } = call.status;
    context.set(&[IMAGE, &image_suffix(&spec)].concat(), &state);
    Ok(())
}

pub(super) fn image_remove(context: &mut Context<'_>, call: GroupImageRemove) -> Outcome<()> {
    context.unset(&[IMAGE, &image_suffix(&call.spec)].concat())
}

pub(super) fn image_list(context: &mut Context<'_>, call: GroupImageList) -> Outcome<Vec<GroupImageStatus>> {
    let after = if call.after.pool == -1 { String::new() } else { image_suffix(&call.after) };
    let images = context.entries(IMAGE, &after).take(at_most(call.max));
    let status = |(suffix, state): (String, &[u8])| {
        let spec = image_of(&suffix).ok_or(Errno::IO)?;
        let state = u8::decode(&mut Reader::new(state)).map_err(|_| Errno::IO)?;
        Ok(GroupImageStatus { spec, state })
    };
    images.map(status).collect()
}

pub(super) fn of_image(context: &mut Context<'_>, _: ImageGroupGet) -> Outcome<GroupSpec> {
    Ok(context.get_opt(GROUP)?.unwrap_or_default())
}

pub(super) fn add_to_image(context: &mut Context<'_>, call: ImageGroupAdd) -> Outcome<()> {
    match context.get_opt::<GroupSpec>(GROUP)? {
        Some(group) if group == call.group => Ok(()),
        Some(_) => Err(Errno::EXIST),
        None => {
            set_op_features(context, op_feature::GROUP, op_feature::GROUP)?;
            context.set(GROUP, &call.group);
            Ok(())
        }
    }
}

pub(super) fn remove_from_image(context: &mut Context<'_>, call: ImageGroupRemove) -> Outcome<()> {
    if context.get::<GroupSpec>(GROUP)? != call.group {
        return Err(Errno::BADF);
    }
    context.unset(GROUP)?;
    clear_op_features(context, op_feature::GROUP)
}

fn snapshots<'a>(
    context: &'a Context<'_>,
    after: &str,
) -> impl Iterator<Item = Outcome<GroupSnapshot>> + use<'a> {
    let snapshots = context.entries(SNAPSHOT, after);
    snapshots.map(|(_, bytes)| GroupSnapshot::decode(&mut Reader::new(bytes)).map_err(|_| Errno::IO))
}

pub(super) fn snap_set(context: &mut Context<'_>, call: GroupSnapSet) -> Outcome<()> {
    let snapshot = call.snapshot;
    if snapshot.name.is_empty() || snapshot.id.is_empty() {
        return Err(Errno::INVAL);
    }
    for other in snapshots(context, "") {
        let other = other?;
        if other.name == snapshot.name && other.id != snapshot.id {
            return Err(Errno::EXIST);
        }
    }
    let key = [SNAPSHOT, &snapshot.id].concat();
    if snapshot.state == group_snapshot_state::INCOMPLETE && context.raw(&key).is_ok() {
        return Err(Errno::EXIST);
    }
    context.set(&key, &snapshot);
    Ok(())
}

pub(super) fn snap_remove(context: &mut Context<'_>, call: GroupSnapRemove) -> Outcome<()> {
    context.unset(&[SNAPSHOT, &call.id].concat())
}

pub(super) fn snap_get_by_id(context: &mut Context<'_>, call: GroupSnapGetById) -> Outcome<GroupSnapshot> {
    context.get(&[SNAPSHOT, &call.id].concat())
}

pub(super) fn snap_list(context: &mut Context<'_>, call: GroupSnapList) -> Outcome<Vec<GroupSnapshot>> {
    snapshots(context, &call.after.id).take(at_most(call.max)).collect()
}
