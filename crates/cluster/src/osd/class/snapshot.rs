//! The class `rbd`: what is known about snapshots and clones.
//!
//! Snapshots cannot be made: an OSD that does not keep what they show must not promise it. So the methods that add
//! and change them are missing, and fail like those of a class that is too old.

use super::context::Context;
use super::header::{SNAPSHOT, snapshot_key};
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_ceph::types::{NOSNAP, Utime};
use onego_msgr::encoding::Encode;
use onego_wire::Writer;

fn read(context: &Context<'_>, snap: u64) -> Outcome<Snapshot> {
    if snap == NOSNAP { Err(Errno::INVAL) } else { context.get(&snapshot_key(snap)) }
}

pub(super) fn get(context: &mut Context<'_>, call: SnapshotGet) -> Outcome<SnapshotInfo> {
    let Snapshot { id, namespace, name, image_size, timestamp, child_count, .. } = read(context, call.snap)?;
    Ok(SnapshotInfo { id, namespace, name, image_size, timestamp, child_count })
}

pub(super) fn get_name(context: &mut Context<'_>, call: GetSnapshotName) -> Outcome<String> {
    Ok(read(context, call.snap)?.name)
}

pub(super) fn get_timestamp(context: &mut Context<'_>, call: GetSnapshotTimestamp) -> Outcome<Utime> {
    Ok(read(context, call.snap)?.timestamp)
}

pub(super) fn get_protection_status(context: &mut Context<'_>, call: GetProtectionStatus) -> Outcome<u8> {
    context.must_exist()?;
    Ok(read(context, call.snap)?.protection)
}

pub(super) fn get_limit(context: &mut Context<'_>, _: SnapshotGetLimit) -> Outcome<u64> {
    Ok(context.get_opt("snap_limit")?.unwrap_or(u64::MAX))
}

pub(super) fn set_limit(context: &mut Context<'_>, call: SnapshotSetLimit) -> Outcome<()> {
    if call.limit == u64::MAX {
        return context.unset("snap_limit");
    }
    context.must_exist()?;
    if call.limit < context.entries(SNAPSHOT, "").count() as u64 {
        return Err(Errno::RANGE);
    }
    context.set("snap_limit", &call.limit);
    Ok(())
}

pub(super) fn children_list(context: &mut Context<'_>, call: ChildrenList) -> Outcome<Vec<ChildImageSpec>> {
    context.get::<Snapshot>(&snapshot_key(call.snap))?;
    context.get(&format!("snap_children_{:016x}", call.snap))
}

pub(super) fn get_children(context: &mut Context<'_>, call: GetChildren) -> Outcome<Vec<String>> {
    // The key is the parent itself, as it is encoded.
    let mut key = Writer::new();
    call.encode(&mut key);
    let children = context.state.meta().omap().get(key.as_slice()).ok_or(Errno::NOENT)?;
    onego_msgr::encoding::Decode::from_bytes(children).map_err(|_| Errno::IO)
}
