//! The class `rbd`: the snapshots of an image (ceph `src/cls/rbd/cls_rbd.cc`).

use super::header::{SNAPSHOT, clear_op_features, require, set_op_features, snapshot_key, snapshots};
use super::{format1, parent};
use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_ceph::types::{NOSNAP, Utime, Uuid};

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
    let count = match format1::read(context) {
        Ok(header) => header.snapshots.len(),
        Err(Errno::INVAL) => context.entries(SNAPSHOT, "").count(),
        Err(error) => return Err(error),
    };
    if call.limit < count as u64 {
        return Err(Errno::RANGE);
    }
    context.set("snap_limit", &call.limit);
    Ok(())
}

pub(super) fn add(context: &mut Context<'_>, call: SnapshotAdd) -> Outcome<()> {
    let SnapshotAdd { name, snap, namespace } = call;
    if matches!(namespace, SnapshotNamespace::Other { .. }) || snap >= NOSNAP {
        return Err(Errno::INVAL);
    }
    // A client that has lost a race against another one tries again with a newer id.
    if snap < context.get("snap_seq")? {
        return Err(Errno::STALE);
    }
    let image_size = context.get("size")?;
    let flags = context.get_opt("flags")?.unwrap_or(0);
    let limit = context.get_opt("snap_limit")?.unwrap_or(u64::MAX);
    for (there, other) in (1..).zip(snapshots(context)?) {
        if there >= limit {
            return Err(Errno::DQUOT);
        }
        if other.id == snap || other.name == name && other.namespace == namespace {
            return Err(Errno::EXIST);
        }
    }
    let parent_overlap =
        parent::stored(context)?.filter(Parent::exists).and_then(|parent| parent.head_overlap);
    if matches!(namespace, SnapshotNamespace::Trash { .. }) {
        set_op_features(context, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    let snapshot = Snapshot {
        id: snap,
        name,
        image_size,
        protection: protection::UNPROTECTED,
        flags,
        namespace,
        timestamp: context.now,
        child_count: 0,
        parent_overlap,
    };
    context.set("snap_seq", &snap);
    context.set(&snapshot_key(snap), &snapshot);
    Ok(())
}

pub(super) fn rename(context: &mut Context<'_>, call: SnapshotRename) -> Outcome<()> {
    let is_user = |snapshot: &Snapshot| snapshot.namespace == SnapshotNamespace::User;
    if snapshots(context)?.iter().any(|other| is_user(other) && other.name == call.name) {
        return Err(Errno::EXIST);
    }
    let key = snapshot_key(call.snap);
    let snapshot: Snapshot = context.get(&key)?;
    if !is_user(&snapshot) {
        return Err(Errno::INVAL);
    }
    context.set(&key, &Snapshot { name: call.name, ..snapshot });
    Ok(())
}

pub(super) fn remove(context: &mut Context<'_>, call: SnapshotRemove) -> Outcome<()> {
    let key = snapshot_key(call.snap);
    let snapshot: Snapshot = context.get(&key)?;
    if snapshot.protection != protection::UNPROTECTED || snapshot.child_count > 0 {
        return Err(Errno::BUSY);
    }
    context.unset(&key)?;
    let left = snapshots(context)?;
    let needs_parent = left.iter().any(|snapshot| snapshot.parent_overlap.is_some());
    let parent = parent::stored(context)?.filter(Parent::exists);
    let is_clone = parent.as_ref().is_some_and(|parent| parent.head_overlap.is_some());
    if parent.is_some() && !is_clone && !needs_parent {
        parent::forget(context)?;
    }
    let mut unused = 0;
    if !is_clone && !needs_parent {
        unused |= op_feature::CLONE_CHILD;
    }
    if !left.iter().any(|snapshot| matches!(snapshot.namespace, SnapshotNamespace::Trash { .. })) {
        unused |= op_feature::SNAP_TRASH;
    }
    clear_op_features(context, unused)
}

/// A name that no other snapshot of the image has: it looks random, but every OSD comes to the same.
fn hidden_name(snap: u64, now: Utime) -> String {
    /// A step of the generator SplitMix64.
    fn mix(state: u64) -> u64 {
        let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ state >> 31
    }
    // A permutation of the id, which the pool gives out once.
    let high = mix(snap);
    let low = mix(high ^ u64::from(now.sec) << 32 ^ u64::from(now.nsec));
    // The bits that say that a UUID is a random one.
    let (version, variant) = (0x4 << 76, 0x2 << 62);
    let (version_mask, variant_mask) = (0xf << 76, 0x3 << 62);
    let bits = u128::from(high) << 64 | u128::from(low);
    Uuid((bits & !version_mask & !variant_mask | version | variant).to_be_bytes()).to_string()
}

pub(super) fn trash_add(context: &mut Context<'_>, call: SnapshotTrashAdd) -> Outcome<()> {
    let key = snapshot_key(call.snap);
    let mut snapshot: Snapshot = context.get(&key)?;
    if snapshot.protection != protection::UNPROTECTED {
        return Err(Errno::BUSY);
    }
    let original_kind = match &snapshot.namespace {
        SnapshotNamespace::Trash { .. } => return Err(Errno::EXIST),
        other => other.kind(),
    };
    set_op_features(context, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    let name = hidden_name(snapshot.id, context.now);
    let original_name = std::mem::replace(&mut snapshot.name, name);
    snapshot.namespace = SnapshotNamespace::Trash { original_name, original_kind };
    context.set(&key, &snapshot);
    Ok(())
}

pub(super) fn set_protection_status(context: &mut Context<'_>, call: SetProtectionStatus) -> Outcome<()> {
    context.must_exist()?;
    require(context, feature::LAYERING)?;
    if call.status > protection::PROTECTED {
        return Err(Errno::INVAL);
    }
    let snapshot = read(context, call.snap)?;
    context.set(&snapshot_key(call.snap), &Snapshot { protection: call.status, ..snapshot });
    Ok(())
}
