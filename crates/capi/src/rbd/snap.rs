//! Snapshots of an image, as its header lists them.

use super::image::RbdImage;
use crate::border::{Errno, Handle, In, Out, Text, call, copied_text, done, fill, free};
use crate::runtime::block_on;
use onego::ceph::Error;
use onego_ceph::cls::rbd::{GetSize, GetSnapContext, GetSnapshotName};
use onego_ceph::rbd::header_object;
use std::ffi::{c_char, c_int};

/// A snapshot.
struct Snapshot {
    id: u64,
    size: u64,
    name: String,
}

/// All of them, oldest first.
async fn snapshots(image: &RbdImage) -> Result<Vec<Snapshot>, Error> {
    let (pool, header) = (image.pool(), header_object(&image.image.info().id).to_string());
    let mut ids = pool.call(&header, &GetSnapContext {}).await?.snaps;
    ids.sort_unstable();
    let mut snapshots = Vec::with_capacity(ids.len());
    for id in ids {
        let name = pool.call(&header, &GetSnapshotName { snap: id }).await?;
        let size = pool.call(&header, &GetSize { snap: id }).await?.size;
        snapshots.push(Snapshot { id, size, name });
    }
    Ok(snapshots)
}

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
        if snaps.is_null() {
            return Err(Errno::INVAL);
        }
        let all = block_on(snapshots(image.get()?))?;
        let room = usize::try_from(most.read()?).map_err(|_| Errno::INVAL)?;
        if room < all.len() + 1 {
            most.set(all.len() as c_int + 1)?;
            return Err(Errno::RANGE);
        }
        let info = |snap: &Snapshot| {
            Ok(SnapInfo { id: snap.id, size: snap.size, name: copied_text(snap.name.as_bytes())? })
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

/// What is known of the snapshot that `is_it` finds.
fn find<T>(
    image: Handle<RbdImage>,
    is_it: impl Fn(&Snapshot) -> bool,
    what: impl FnOnce(&Snapshot) -> T,
) -> Result<T, Errno> {
    block_on(snapshots(image.get()?))?.iter().find(|snap| is_it(snap)).map(what).ok_or(Errno::NOENT)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_exists(image: Handle<RbdImage>, name: Text, exists: Out<bool>) -> c_int {
    done(|| {
        let name = name.text()?;
        exists.set(find(image, |snap| snap.name == name, |_| ()).is_ok())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_id(image: Handle<RbdImage>, name: Text, id: Out<u64>) -> c_int {
    done(|| {
        let name = name.text()?;
        id.set(find(image, |snap| snap.name == name, |snap| snap.id)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_snap_get_name(image: Handle<RbdImage>, id: u64, name: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let found = find(image, |snap| snap.id == id, |snap| snap.name.clone())?;
        fill(name, len, &[found.as_bytes(), b"\0"].concat())
    })
}

/// What is read of an image is its newest state, until snapshots can be opened.
#[unsafe(no_mangle)]
extern "C" fn rbd_snap_set(image: Handle<RbdImage>, name: Text) -> c_int {
    done(|| {
        image.get()?;
        if name.text_or_empty().is_empty() { Ok(()) } else { Err(Errno::NOTSUP) }
    })
}
