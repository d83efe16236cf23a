//! The clients that have an image open, and what they are told.

use super::image::RbdImage;
use super::image_watch::{Told, Wanted};
use super::lists::give;
use crate::border::{Errno, Handle, In, Opaque, Out, call, copied_text, done, free};
use crate::runtime::block_on;
use onego::rbd::ImageWatch;
use onego_wire::text::to_bytes;
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
        let all = block_on(image.pool().watchers(&image.header_object()))?;
        give(watchers, most, &all, |watcher| {
            let addr = copied_text(&to_bytes(&watcher.addr.to_string()))?;
            Ok(ImageWatcher { addr, id: watcher.name.num, cookie: watcher.cookie })
        })
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

/// Watches an image for a program.
fn watch(image: Handle<RbdImage>, wanted: Wanted, argument: Opaque, cookie: Out<u64>) -> Result<(), Errno> {
    let image = image.get()?;
    let watch = block_on(ImageWatch::open(image.pool(), image.known()))?;
    image.watches().add(watch, wanted, argument, image.client().callbacks(), |id| cookie.set(id))
}

fn unwatch(image: Handle<RbdImage>, cookie: u64) -> Result<(), Errno> {
    match image.get()?.watches().take(cookie)? {
        Some(watch) => Ok(block_on(watch.close())?),
        None => Ok(()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_update_watch(
    image: Handle<RbdImage>,
    handle: Out<u64>,
    told: Option<Told>,
    argument: Opaque,
) -> c_int {
    done(|| watch(image, Wanted::Updates(told.ok_or(Errno::INVAL)?), argument, handle))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_update_unwatch(image: Handle<RbdImage>, handle: u64) -> c_int {
    done(|| unwatch(image, handle))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_quiesce_watch(
    image: Handle<RbdImage>,
    begin: Option<Told>,
    end: Option<Told>,
    argument: Opaque,
    handle: Out<u64>,
) -> c_int {
    done(|| {
        let (begin, end) = (begin.ok_or(Errno::INVAL)?, end.ok_or(Errno::INVAL)?);
        watch(image, Wanted::Quiesce { begin, end }, argument, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_quiesce_complete(image: Handle<RbdImage>, handle: u64, result: c_int) {
    call(|| image.get()?.watches().answer(handle, result));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_quiesce_unwatch(image: Handle<RbdImage>, handle: u64) -> c_int {
    done(|| unwatch(image, handle))
}
