//! The class `rbd`: the snapshot that an image is a clone of (ceph `src/cls/rbd/cls_rbd.cc`).

use super::header::{clear_op_features, require, snapshot_key, snapshots};
use crate::osd::class::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_ceph::types::NOSNAP;

const PARENT: &str = "parent";

/// The parent as the header keeps it, if it does.
pub(super) fn stored(context: &Context<'_>) -> Outcome<Option<Parent>> {
    context.get_opt(PARENT)
}

/// The parent, if the image may have one and has.
fn parent(context: &Context<'_>) -> Outcome<Option<Parent>> {
    match require(context, feature::LAYERING) {
        Ok(()) => stored(context),
        Err(Errno::NOEXEC) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn set(context: &mut Context<'_>, parent: &Parent) {
    context.set(PARENT, parent);
}

/// No snapshot needs the parent any more.
pub(super) fn forget(context: &mut Context<'_>) -> Outcome<()> {
    context.unset(PARENT)
}

pub(super) fn get_parent(context: &mut Context<'_>, call: GetParent) -> Outcome<LegacyParent> {
    context.must_exist()?;
    let mut parent = parent(context)?.unwrap_or_default();
    // Callers that old know no namespaces.
    if !parent.spec.namespace.is_empty() {
        return Err(Errno::XDEV);
    }
    if call.snap != NOSNAP {
        let snapshot = context.get_opt::<Snapshot>(&snapshot_key(call.snap))?;
        match snapshot.and_then(|snapshot| snapshot.parent_overlap) {
            Some(_) if !parent.exists() => return Err(Errno::INVAL),
            Some(overlap) => parent.head_overlap = Some(overlap),
            None => parent = Parent::default(),
        }
    }
    let Parent { spec, head_overlap } = parent;
    Ok(LegacyParent {
        pool: spec.pool,
        image_id: spec.image_id,
        snap: spec.snap,
        overlap: head_overlap.unwrap_or(0),
    })
}

pub(super) fn parent_get(context: &mut Context<'_>, _: ParentGet) -> Outcome<ParentImageSpec> {
    context.must_exist()?;
    Ok(parent(context)?.unwrap_or_default().spec)
}

pub(super) fn parent_overlap_get(context: &mut Context<'_>, call: ParentOverlapGet) -> Outcome<Option<u64>> {
    if require(context, feature::LAYERING).is_err() {
        return Ok(None);
    }
    match call.snap {
        NOSNAP => Ok(stored(context)?.and_then(|parent| parent.head_overlap)),
        snap => Ok(context.get::<Snapshot>(&snapshot_key(snap))?.parent_overlap),
    }
}

fn attach(context: &mut Context<'_>, spec: ParentImageSpec, overlap: u64, reattach: bool) -> Outcome<()> {
    context.must_exist()?;
    require(context, feature::LAYERING)?;
    let mut parent = Parent { spec, head_overlap: Some(overlap) };
    if !parent.exists() || overlap == 0 {
        return Err(Errno::INVAL);
    }
    // A parent that but snapshots need may become the image's own again.
    let other = |stored: Parent| stored.head_overlap.is_some() || stored.spec != parent.spec;
    if !reattach && stored(context)?.is_some_and(other) {
        return Err(Errno::EXIST);
    }
    parent.head_overlap = Some(overlap.min(context.get("size")?));
    set(context, &parent);
    Ok(())
}

pub(super) fn parent_attach(context: &mut Context<'_>, call: ParentAttach) -> Outcome<()> {
    attach(context, call.parent, call.overlap, call.reattach)
}

pub(super) fn set_parent(context: &mut Context<'_>, call: SetParent) -> Outcome<()> {
    let SetParent { pool, image_id, snap, overlap } = call;
    let spec = ParentImageSpec { pool, namespace: String::new(), image_id, snap };
    attach(context, spec, overlap, false)
}

/// The image needs its parent no more, and neither do its snapshots where flattening reaches them.
fn detach(context: &mut Context<'_>, mut parent: Parent) -> Outcome<()> {
    if parent.head_overlap.is_none() {
        return Err(Errno::NOENT);
    }
    let mut snapshots = snapshots(context)?;
    snapshots.retain(|snapshot| snapshot.parent_overlap.is_some());
    if snapshots.is_empty() || require(context, feature::DEEP_FLATTEN).is_ok() {
        for snapshot in snapshots {
            context.set(&snapshot_key(snapshot.id), &Snapshot { parent_overlap: None, ..snapshot });
        }
        forget(context)?;
        clear_op_features(context, op_feature::CLONE_CHILD)
    } else {
        parent.head_overlap = None;
        set(context, &parent);
        Ok(())
    }
}

/// The parent of an image that may have one. ENOENT: it has none.
fn required(context: &Context<'_>) -> Outcome<Parent> {
    context.must_exist()?;
    require(context, feature::LAYERING)?;
    context.get(PARENT)
}

pub(super) fn parent_detach(context: &mut Context<'_>, _: ParentDetach) -> Outcome<()> {
    let parent = required(context)?;
    detach(context, parent)
}

pub(super) fn remove_parent(context: &mut Context<'_>, _: RemoveParent) -> Outcome<()> {
    let parent = required(context)?;
    // Callers that old know no namespaces.
    if !parent.spec.namespace.is_empty() {
        return Err(Errno::XDEV);
    }
    detach(context, parent)
}
