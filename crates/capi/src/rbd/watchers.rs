//! The clients that have an image open.

use super::image::RbdImage;
use crate::border::{Errno, Handle, In, Out, call, copied_text, done, free};
use crate::runtime::block_on;
use onego_ceph::rbd::header_object;
use std::ffi::{c_char, c_int};

/// A client that has the image open (`rbd_image_watcher_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ImageWatcher {
    addr: *mut c_char,
    id: i64,
    cookie: u64,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_watchers_list(
    image: Handle<RbdImage>,
    watchers: Out<ImageWatcher>,
    most: Out<usize>,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let header = header_object(&image.image.info().id).to_string();
        let all = block_on(image.pool().watchers(&header))?;
        let room = most.read()?;
        most.set(all.len())?;
        if all.len() > room {
            return Err(Errno::RANGE);
        }
        let shown = all.iter().map(|watcher| {
            let addr = copied_text(watcher.addr.to_string().as_bytes())?;
            Ok(ImageWatcher { addr, id: watcher.name.num, cookie: watcher.cookie })
        });
        watchers.copy(&shown.collect::<Result<Vec<_>, Errno>>()?, room)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_watchers_list_cleanup(watchers: In<ImageWatcher>, count: usize) {
    call(|| {
        for watcher in watchers.slice(count)? {
            free(watcher.addr.cast());
        }
        Ok(())
    });
}
