//! The class `rbd`: mirroring as users set it up (ceph `src/cls/rbd/cls_rbd.cc`).
//!
//! What daemons that mirror note about their work is not kept: nothing is known of any image's progress.

use super::header::snapshot_key;
use crate::osd::class::context::{Context, at_most};
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::rbd::*;
use onego_msgr::encoding::Decode;
use onego_wire::Reader;
use std::collections::BTreeMap;

const UUID: &str = "mirror_uuid";
const MODE: &str = "mirror_mode";
const REMOTE_NAMESPACE: &str = "mirror_remote_namespace";
const PEER: &str = "mirror_peer_";
const IMAGE: &str = "image_";
const GLOBAL: &str = "global_";

fn peer_key(uuid: &str) -> String {
    [PEER, uuid].concat()
}

fn image_key(id: &str) -> String {
    [IMAGE, id].concat()
}

fn global_key(id: &str) -> String {
    [GLOBAL, id].concat()
}

/// Something that is stored behind a prefix, with the rest of its key.
fn decoded<T: Decode>((name, bytes): (String, &[u8])) -> Outcome<(String, T)> {
    Ok((name, T::decode(&mut Reader::new(bytes)).map_err(|_| Errno::IO)?))
}

/// Stored without its length.
pub(super) fn uuid_get(context: &mut Context<'_>, _: MirrorUuidGet) -> Outcome<String> {
    Ok(String::from_utf8_lossy(context.raw(UUID)?).into_owned())
}

fn is_enabled(context: &Context<'_>) -> Outcome<bool> {
    Ok(context.get_opt::<u32>(MODE)?.is_some_and(|mode| mode != mirror_mode::DISABLED))
}

pub(super) fn uuid_set(context: &mut Context<'_>, call: MirrorUuidSet) -> Outcome<()> {
    if call.uuid.is_empty() || is_enabled(context)? {
        return Err(Errno::INVAL);
    }
    context.set_raw(UUID, call.uuid.into_bytes());
    Ok(())
}

pub(super) fn mode_get(context: &mut Context<'_>, _: MirrorModeGet) -> Outcome<u32> {
    context.get(MODE)
}

pub(super) fn mode_set(context: &mut Context<'_>, call: MirrorModeSet) -> Outcome<()> {
    match call.mode {
        mirror_mode::DISABLED if !peers(context)?.is_empty() => Err(Errno::BUSY),
        mirror_mode::DISABLED => {
            context.unset_if_there(MODE);
            context.unset_if_there(UUID);
            Ok(())
        }
        mirror_mode::IMAGE | mirror_mode::POOL if context.raw(UUID).is_ok() => {
            context.set(MODE, &call.mode);
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn remote_namespace_get(
    context: &mut Context<'_>,
    _: MirrorRemoteNamespaceGet,
) -> Outcome<String> {
    context.get(REMOTE_NAMESPACE)
}

pub(super) fn remote_namespace_set(context: &mut Context<'_>, call: MirrorRemoteNamespaceSet) -> Outcome<()> {
    if is_enabled(context)? {
        return Err(Errno::INVAL);
    }
    context.set(REMOTE_NAMESPACE, &call.namespace);
    Ok(())
}

fn peers(context: &Context<'_>) -> Outcome<Vec<MirrorPeer>> {
    context.entries(PEER, "").map(|entry| Ok(decoded(entry)?.1)).collect()
}

pub(super) fn peer_list(context: &mut Context<'_>, _: MirrorPeerList) -> Outcome<Vec<MirrorPeer>> {
    peers(context)
}

pub(super) fn peer_add(context: &mut Context<'_>, call: MirrorPeerAdd) -> Outcome<()> {
    let peer = call.peer;
    if !is_enabled(context)? || !peer.is_valid() {
        return Err(Errno::INVAL);
    }
    let own = context.raw(UUID)?;
    if own == peer.uuid.as_bytes() || peer.direction == mirror_direction::SEND {
        return Err(Errno::INVAL);
    }
    for other in peers(context)? {
        let is_same = !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid;
        if other.uuid == peer.uuid {
            return Err(Errno::STALE);
        }
        if other.site_name == peer.site_name || is_same {
            return Err(Errno::EXIST);
        }
    }
    context.set(&peer_key(&peer.uuid), &peer);
    Ok(())
}

pub(super) fn peer_remove(context: &mut Context<'_>, call: MirrorPeerRemove) -> Outcome<()> {
    context.unset_if_there(&peer_key(&call.uuid));
    Ok(())
}

/// Changes a peer. ENOENT: it is not there.
fn change_peer(context: &mut Context<'_>, uuid: &str, change: impl FnOnce(&mut MirrorPeer)) -> Outcome<()> {
    let key = peer_key(uuid);
    let mut peer = context.get(&key)?;
    change(&mut peer);
    context.set(&key, &peer);
    Ok(())
}

pub(super) fn peer_set_client(context: &mut Context<'_>, call: MirrorPeerSetClient) -> Outcome<()> {
    change_peer(context, &call.uuid, |peer| peer.client_name = call.client_name)
}

pub(super) fn peer_set_cluster(context: &mut Context<'_>, call: MirrorPeerSetCluster) -> Outcome<()> {
    if peers(context)?.iter().any(|peer| peer.uuid != call.uuid && peer.site_name == call.site_name) {
        return Err(Errno::EXIST);
    }
    change_peer(context, &call.uuid, |peer| peer.site_name = call.site_name)
}

pub(super) fn peer_set_direction(context: &mut Context<'_>, call: MirrorPeerSetDirection) -> Outcome<()> {
    change_peer(context, &call.uuid, |peer| peer.direction = call.direction)
}

/// Images behind the one with the id `after`, by their ids.
fn images(context: &Context<'_>, after: &str, max: u64) -> Outcome<BTreeMap<String, MirrorImage>> {
    context.entries(IMAGE, after).take(at_most(max)).map(decoded).collect()
}

pub(super) fn image_list(
    context: &mut Context<'_>,
    call: MirrorImageList,
) -> Outcome<BTreeMap<String, String>> {
    let images = images(context, &call.after, call.max)?;
    Ok(images.into_iter().map(|(id, image)| (id, image.global_id)).collect())
}

pub(super) fn image_get_image_id(context: &mut Context<'_>, call: MirrorImageGetImageId) -> Outcome<String> {
    context.get(&global_key(&call.global_id))
}

pub(super) fn image_get(context: &mut Context<'_>, call: MirrorImageGet) -> Outcome<MirrorImage> {
    context.get(&image_key(&call.image_id))
}

pub(super) fn image_set(context: &mut Context<'_>, call: MirrorImageSet) -> Outcome<()> {
    let MirrorImageSet { image_id, image } = call;
    let (key, global) = (image_key(&image_id), global_key(&image.global_id));
    match context.get_opt::<MirrorImage>(&key)? {
        Some(before) if before.global_id != image.global_id => return Err(Errno::INVAL),
        Some(_) => {}
        None if context.raw(&global).is_ok() => return Err(Errno::EXIST),
        // Somebody else has switched it off meanwhile.
        None if image.state == mirror_state::DISABLING => return Err(Errno::NOENT),
        None => {}
    }
    context.set(&key, &image);
    context.set(&global, &image_id);
    Ok(())
}

pub(super) fn image_remove(context: &mut Context<'_>, call: MirrorImageRemove) -> Outcome<()> {
    let key = image_key(&call.image_id);
    let image: MirrorImage = context.get(&key)?;
    if image.state != mirror_state::DISABLING {
        return Err(Errno::BUSY);
    }
    context.unset(&key)?;
    context.unset(&global_key(&image.global_id))
}

pub(super) fn image_status_list(
    context: &mut Context<'_>,
    call: MirrorImageStatusList,
) -> Outcome<MirrorImageStatuses> {
    let images = images(context, &call.after, call.max)?;
    Ok(MirrorImageStatuses { images, statuses: BTreeMap::new() })
}

pub(super) fn image_status_get_summary(
    context: &mut Context<'_>,
    _: MirrorImageStatusGetSummary,
) -> Outcome<BTreeMap<u8, i32>> {
    /// The state of an image of which nothing is known.
    const UNKNOWN: u8 = 0;
    let count = i32::try_from(context.entries(IMAGE, "").count()).unwrap_or(i32::MAX);
    Ok(if count == 0 { BTreeMap::new() } else { BTreeMap::from([(UNKNOWN, count)]) })
}

/// Changes what a snapshot is for that an image is mirrored by. EINVAL: it is for something else.
fn change_snapshot(
    context: &mut Context<'_>,
    snap: u64,
    change: impl FnOnce(&mut SnapshotNamespace) -> Outcome<()>,
) -> Outcome<()> {
    let key = snapshot_key(snap);
    let mut snapshot: Snapshot = context.get(&key)?;
    change(&mut snapshot.namespace)?;
    context.set(&key, &snapshot);
    Ok(())
}

pub(super) fn snapshot_unlink_peer(context: &mut Context<'_>, call: MirrorSnapshotUnlinkPeer) -> Outcome<()> {
    change_snapshot(context, call.snap, |namespace| {
        let SnapshotNamespace::Mirror { peer_uuids, .. } = namespace else { return Err(Errno::INVAL) };
        let at = peer_uuids.iter().position(|uuid| *uuid == call.uuid).ok_or(Errno::NOENT)?;
        peer_uuids.remove(at);
        Ok(())
    })
}

pub(super) fn snapshot_set_copy_progress(
    context: &mut Context<'_>,
    call: MirrorSnapshotSetCopyProgress,
) -> Outcome<()> {
    /// The first of the states of a snapshot that is a copy (`MirrorSnapshotState`).
    const NON_PRIMARY: u8 = 2;
    change_snapshot(context, call.snap, |namespace| {
        let SnapshotNamespace::Mirror { state, complete, last_copied_object, .. } = namespace else {
            return Err(Errno::INVAL);
        };
        *complete = call.complete;
        if *state >= NON_PRIMARY {
            *last_copied_object = call.last_copied_object;
        }
        Ok(())
    })
}
