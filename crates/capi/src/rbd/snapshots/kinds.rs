//! What snapshots were made for, if not for a user.

use crate::border::{Errno, Handle, In, Out, copied, copied_text, done, free};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::{check_size, joined};
use crate::runtime::block_on;
use onego::rbd::pools::group_snapshot_names;
use onego::rbd::snapshots::SnapshotKind;
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

fn kind(image: Handle<RbdImage>, id: u64) -> Result<SnapshotKind, Errno> {
    Ok(image.get()?.details()?.snapshot_by_id(id)?.kind.clone())
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_namespace_type(image: Handle<RbdImage>, id: u64, number: Out<u32>) -> c_int {
    done(|| number.set(kind(image, id)?.kind()))
}

/// The snapshot of a group that a snapshot is part of (`rbd_snap_group_namespace_t`).
#[repr(C)]
struct OfGroup {
    pool: i64,
    group: *mut c_char,
    snapshot: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_group_namespace(
    image: Handle<RbdImage>,
    id: u64,
    of: Out<OfGroup>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<OfGroup>(size)?;
        let SnapshotKind::Group { pool, group_id, snapshot_id } = kind(image, id)? else {
            return Err(Errno::INVAL);
        };
        let names = group_snapshot_names(image.get()?.pool(), pool, &group_id, &snapshot_id);
        let (_, group, snapshot) = block_on(names)?;
        of.set(OfGroup {
            pool,
            group: copied_text(&to_bytes(&group))?,
            snapshot: copied_text(&to_bytes(&snapshot))?,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_group_namespace_cleanup(of: In<OfGroup>, size: usize) -> c_int {
    done(|| {
        check_size::<OfGroup>(size)?;
        if let Some(of) = of.get() {
            free(of.group.cast());
            free(of.snapshot.cast());
        }
        Ok(())
    })
}

/// The name that a snapshot had before it was removed while clones need it, and the number of its kind then.
fn in_trash(image: Handle<RbdImage>, id: u64) -> Result<(String, u32), Errno> {
    match kind(image, id)? {
        SnapshotKind::Trash { original_name, original_kind } => Ok((original_name, original_kind)),
        _ => Err(Errno::INVAL),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_trash_namespace(
    image: Handle<RbdImage>,
    id: u64,
    name: Out<u8>,
    len: usize,
) -> c_int {
    done(|| name.copy_text(&to_bytes(&in_trash(image, id)?.0), len))
}

/// What a removed snapshot was (`rbd_snap_trash_namespace_t`).
#[repr(C)]
struct InTrash {
    kind: u32,
    name: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_trash_namespace2(
    image: Handle<RbdImage>,
    id: u64,
    of: Out<InTrash>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<InTrash>(size)?;
        let (name, kind) = in_trash(image, id)?;
        of.set(InTrash { kind, name: copied_text(&to_bytes(&name))? })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_trash_namespace_cleanup(of: In<InTrash>, size: usize) -> c_int {
    done(|| {
        check_size::<InTrash>(size)?;
        if let Some(of) = of.get() {
            free(of.name.cast());
        }
        Ok(())
    })
}

/// What the mirroring of an image made a snapshot for (`rbd_snap_mirror_namespace_t`).
#[repr(C)]
struct OfMirror {
    state: u32,
    peers: usize,
    peer_uuids: *mut c_char,
    complete: bool,
    primary_uuid: *mut c_char,
    primary_snap: u64,
    last_copied_object: u64,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_mirror_namespace(
    image: Handle<RbdImage>,
    id: u64,
    of: Out<OfMirror>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<OfMirror>(size)?;
        let SnapshotKind::Mirror {
            state,
            complete,
            peer_uuids,
            primary_uuid,
            primary_snap,
            last_copied_object,
            ..
        } = kind(image, id)?
        else {
            return Err(Errno::INVAL);
        };
        of.set(OfMirror {
            state: state.into(),
            peers: peer_uuids.len(),
            peer_uuids: copied(&joined(&peer_uuids))?,
            complete,
            primary_uuid: copied_text(&to_bytes(&primary_uuid))?,
            primary_snap,
            last_copied_object,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_mirror_namespace_cleanup(of: In<OfMirror>, size: usize) -> c_int {
    done(|| {
        check_size::<OfMirror>(size)?;
        if let Some(of) = of.get() {
            free(of.peer_uuids.cast());
            free(of.primary_uuid.cast());
        }
        Ok(())
    })
}
