//! The class `rbd`: the clones of a snapshot, which it counts itself, and those that the pool's list has (ceph
//! `src/cls/rbd/cls_rbd.cc`).

use super::header::{clear_op_features, set_op_features, snapshot_key, snapshots};
use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::Writer;
use std::collections::BTreeSet;

fn children_key(snap: u64) -> String {
    format!("snap_children_{snap:016x}")
}

/// The clones that a snapshot counts itself.
fn children(context: &Context<'_>, snap: u64) -> Outcome<Vec<ChildImageSpec>> {
    Ok(context.get_opt(&children_key(snap))?.unwrap_or_default())
}

/// Counts the clones of a snapshot anew, which are `children` from now on.
fn set_children(
    context: &mut Context<'_>,
    mut snapshot: Snapshot,
    mut children: Vec<ChildImageSpec>,
) -> Outcome<()> {
    snapshot.child_count = u32::try_from(children.len()).map_err(|_| Errno::INVAL)?;
    // The order of Ceph's sets.
    children.sort_by(|a, b| (a.pool, &a.namespace, &a.image_id).cmp(&(b.pool, &b.namespace, &b.image_id)));
    let key = children_key(snapshot.id);
    if children.is_empty() {
        context.unset(&key)?;
    } else {
        context.set(&key, &children);
    }
    context.set(&snapshot_key(snapshot.id), &snapshot);
    Ok(())
}

pub(super) fn child_attach(context: &mut Context<'_>, call: ChildAttach) -> Outcome<()> {
    let snapshot: Snapshot = context.get(&snapshot_key(call.snap))?;
    if matches!(snapshot.namespace, SnapshotNamespace::Trash { .. }) {
        return Err(Errno::NOENT);
    }
    let mut children = children(context, call.snap)?;
    if children.contains(&call.child) {
        return Err(Errno::EXIST);
    }
    children.push(call.child);
    set_children(context, snapshot, children)?;
    set_op_features(context, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)
}

pub(super) fn child_detach(context: &mut Context<'_>, call: ChildDetach) -> Outcome<()> {
    let snapshot: Snapshot = context.get(&snapshot_key(call.snap))?;
    let mut children = children(context, call.snap)?;
    if snapshot.child_count as usize != children.len() {
        return Err(Errno::INVAL);
    }
    let at = children.iter().position(|child| *child == call.child).ok_or(Errno::NOENT)?;
    children.remove(at);
    set_children(context, snapshot, children)?;
    if snapshots(context)?.iter().all(|snapshot| snapshot.child_count == 0) {
        clear_op_features(context, op_feature::CLONE_PARENT)?;
    }
    Ok(())
}

pub(super) fn children_list(context: &mut Context<'_>, call: ChildrenList) -> Outcome<Vec<ChildImageSpec>> {
    context.get::<Snapshot>(&snapshot_key(call.snap))?;
    context.get(&children_key(call.snap))
}

/// The key of a snapshot in the pool's list is what names it, as it is encoded.
fn list_key(pool: i64, image_id: &str, snap: u64) -> Vec<u8> {
    let mut key = Writer::new();
    key.i64(pool);
    key.string(image_id);
    key.u64(snap);
    key.into_vec()
}

/// Clones by the pool's list. ENOENT: the snapshot has none.
fn listed(context: &Context<'_>, key: &[u8]) -> Outcome<BTreeSet<String>> {
    let children = context.state.meta().omap().get(key).ok_or(Errno::NOENT)?;
    BTreeSet::from_bytes(children).map_err(|_| Errno::IO)
}

pub(super) fn add_child(context: &mut Context<'_>, call: AddChild) -> Outcome<()> {
    let key = list_key(call.pool, &call.image_id, call.snap);
    let mut children = match listed(context, &key) {
        Err(Errno::NOENT) => BTreeSet::new(),
        other => other?,
    };
    if !children.insert(call.child) {
        return Err(Errno::EXIST);
    }
    context.changes();
    context.state.omap_set(key, children.to_bytes());
    Ok(())
}

pub(super) fn remove_child(context: &mut Context<'_>, call: RemoveChild) -> Outcome<()> {
    let key = list_key(call.pool, &call.image_id, call.snap);
    let mut children = listed(context, &key)?;
    if !children.remove(&call.child) {
        return Err(Errno::NOENT);
    }
    context.changes();
    if children.is_empty() {
        context.state.omap_remove(&key);
    } else {
        context.state.omap_set(key, children.to_bytes());
    }
    Ok(())
}

pub(super) fn get_children(context: &mut Context<'_>, call: GetChildren) -> Outcome<Vec<String>> {
    let children = listed(context, &list_key(call.pool, &call.image_id, call.snap))?;
    Ok(children.into_iter().collect())
}
