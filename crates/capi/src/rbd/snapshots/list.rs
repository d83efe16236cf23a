//! Snapshots of an image, as its header lists them, and which of them is shown.

use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, fill, free};
use crate::rbd::image::RbdImage;
use crate::rbd::info::timespec;
use crate::runtime::block_on;
use onego::rbd::snapshots::{Snapshot, limit, set_limit};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// A snapshot as programs see it (`rbd_snap_info_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct SnapInfo {
    id: u64,
    size: u64,
    name: *mut c_char,
}

/// There must be room for one more: behind the last stands one without a name.
#[unsafe(no_mangle)]
extern "C" fn rbd_snap_list(image: Handle<RbdImage>, snaps: Out<SnapInfo>, most: Out<c_int>) -> c_int {
    call(|| {
        let all = image.get()?.details()?.snapshots;
        let room = usize::try_from(most.read()?).map_err(|_| Errno::INVAL)?;
        if room < all.len() + 1 {
            most.set(all.len() as c_int + 1)?;
            return Err(Errno::RANGE);
        }
        let info = |snap: &Snapshot| {
            Ok(SnapInfo { id: snap.id, size: snap.size, name: copied_text(&to_bytes(&snap.name))? })
        };
        let mut infos = all.iter().map(info).collect::<Result<Vec<_>, Errno>>()?;
        infos.push(SnapInfo { id: 0, size: 0, name: std::ptr::null_mut() });
        snaps.copy(&infos, room)?;
        Ok(all.len() as c_int)
    })
}

/// Frees the names. The list is the program's.
#[unsafe(no_mangle)]
extern "C" fn rbd_snap_list_end(snaps: In<SnapInfo>) {
    call(|| {
        for snap in snaps.until(|snap| snap.name.is_null()) {
            free(snap.name.cast());
        }
        Ok(())
    });
}

/// What is known of a user's snapshot.
fn named<T>(image: Handle<RbdImage>, name: Text, what: impl FnOnce(&Snapshot) -> T) -> Result<T, Errno> {
    Ok(what(image.get()?.details()?.snapshot(&name.text()?)?))
}

/// What is known of a snapshot of any kind.
fn numbered<T>(image: Handle<RbdImage>, id: u64, what: impl FnOnce(&Snapshot) -> T) -> Result<T, Errno> {
    Ok(what(image.get()?.details()?.snapshot_by_id(id)?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_exists(image: Handle<RbdImage>, name: Text, exists: Out<bool>) -> c_int {
    done(|| match named(image, name, |_| ()) {
        Ok(()) => exists.set(true),
        Err(Errno::NOENT) => exists.set(false),
        Err(errno) => Err(errno),
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_is_protected(image: Handle<RbdImage>, name: Text, is_protected: Out<c_int>) -> c_int {
    done(|| is_protected.set(named(image, name, Snapshot::is_protected)?.into()))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_id(image: Handle<RbdImage>, name: Text, id: Out<u64>) -> c_int {
    done(|| id.set(named(image, name, |snap| snap.id)?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_name(image: Handle<RbdImage>, id: u64, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let found = numbered(image, id, |snap| snap.name.clone())?;
        fill(name, len, &[&*to_bytes(&found), b"\0"].concat())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_timestamp(image: Handle<RbdImage>, id: u64, time: Out<libc::timespec>) -> c_int {
    done(|| time.set(numbered(image, id, |snap| timespec(snap.created))?))
}

/// The largest number: there is no limit.
#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_limit(image: Handle<RbdImage>, most: Out<u64>) -> c_int {
    done(|| {
        let image = image.get()?;
        most.set(block_on(limit(image.pool(), &image.name()?))?.unwrap_or(u64::MAX))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_set_limit(image: Handle<RbdImage>, most: u64) -> c_int {
    done(|| {
        let most = Some(most).filter(|most| *most != u64::MAX);
        image.get()?.change(async |pool, name| set_limit(pool, name, most).await)
    })
}

/// Shows a snapshot that a user has made, or, without a name, the image as it is.
#[unsafe(no_mangle)]
extern "C" fn rbd_snap_set(image: Handle<RbdImage>, name: Text) -> c_int {
    done(|| {
        let snapshot = match name.text_or_empty().is_empty() {
            true => None,
            false => Some(named(image, name, |snap| snap.id)?),
        };
        image.get()?.show(snapshot)
    })
}

/// Shows a snapshot of any kind; the largest number is the image as it is (`CEPH_NOSNAP`).
#[unsafe(no_mangle)]
extern "C" fn rbd_snap_set_by_id(image: Handle<RbdImage>, id: u64) -> c_int {
    done(|| {
        if id == onego_ceph::types::NOSNAP {
            return image.get()?.show(None);
        }
        image.get()?.show(Some(numbered(image, id, |snap| snap.id)?))
    })
}
