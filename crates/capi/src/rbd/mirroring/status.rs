//! How far the mirroring of an image is. Of one that is not mirrored nothing is known, and Ceph's library says that as the status of
//! this cluster.
//!
//! Source: ceph `src/librbd/mirror/GetStatusRequest.cc`.

use super::images::{MirrorInfo, begin, check_unmirrored};
use crate::border::{Errno, Handle, In, Out, call, copied_array, copied_text, done, free};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::check_size;
use crate::runtime::{AioCompletion, block_on};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// The state of an image of which nothing is known (`MIRROR_IMAGE_STATUS_STATE_UNKNOWN`).
const UNKNOWN: c_int = 0;

/// The same in words.
const NOT_FOUND: &[u8] = b"status not found";

/// How far the mirroring of an image is at a site (`rbd_mirror_image_site_status_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct SiteStatus {
    mirror_uuid: *mut c_char,
    state: c_int,
    description: *mut c_char,
    last_update: libc::time_t,
    up: bool,
}

/// How far it is at all sites (`rbd_mirror_image_global_status_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct GlobalStatus {
    name: *mut c_char,
    info: MirrorInfo,
    site_count: u32,
    sites: *mut SiteStatus,
}

impl GlobalStatus {
    fn unmirrored(name: &str) -> Result<Self, Errno> {
        // This cluster has no UUID here.
        let here = SiteStatus {
            mirror_uuid: copied_text(b"")?,
            state: UNKNOWN,
            description: copied_text(NOT_FOUND)?,
            last_update: 0,
            up: false,
        };
        Ok(Self {
            name: copied_text(&to_bytes(name))?,
            info: MirrorInfo::unmirrored()?,
            site_count: 1,
            sites: copied_array(&[here])?,
        })
    }

    pub(super) fn free(&self) -> Result<(), Errno> {
        free(self.name.cast());
        self.info.free();
        let sites = In::at(self.sites.cast_const());
        for site in sites.slice(self.site_count as usize)? {
            free(site.mirror_uuid.cast());
            free(site.description.cast());
        }
        free(self.sites.cast());
        Ok(())
    }
}

/// How far the mirroring of an image is in this cluster (`rbd_mirror_image_status_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ImageStatus {
    name: *mut c_char,
    info: MirrorInfo,
    state: c_int,
    description: *mut c_char,
    last_update: libc::time_t,
    up: bool,
}

impl ImageStatus {
    fn unmirrored(name: &str) -> Result<Self, Errno> {
        Ok(Self {
            name: copied_text(&to_bytes(name))?,
            info: MirrorInfo::unmirrored()?,
            state: UNKNOWN,
            description: copied_text(NOT_FOUND)?,
            last_update: 0,
            up: false,
        })
    }

    pub(super) fn free(&self) {
        free(self.name.cast());
        self.info.free();
        free(self.description.cast());
    }
}

/// Gives the status that `make` makes for the name of an image that is not mirrored.
async fn give<T>(
    image: &RbdImage,
    found: Out<T>,
    make: fn(&str) -> Result<T, Errno>,
    function: &'static str,
) -> Result<(), Errno> {
    check_unmirrored(image, function).await?;
    let name = image.known().current_name(image.pool()).await?;
    found.set(make(&name)?)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_global_status(
    image: Handle<RbdImage>,
    found: Out<GlobalStatus>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<GlobalStatus>(size)?;
        let function = "rbd_mirror_image_get_global_status";
        block_on(give(image.get()?, found, GlobalStatus::unmirrored, function))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_global_status_cleanup(found: In<GlobalStatus>) {
    call(|| found.get().map_or(Ok(()), GlobalStatus::free));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_mirror_image_get_status(
    image: Handle<RbdImage>,
    found: Out<ImageStatus>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<ImageStatus>(size)?;
        block_on(give(image.get()?, found, ImageStatus::unmirrored, "rbd_mirror_image_get_status"))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_get_global_status(
    image: Handle<RbdImage>,
    found: Out<GlobalStatus>,
    size: usize,
    completion: Handle<AioCompletion>,
) -> c_int {
    if let Err(errno) = check_size::<GlobalStatus>(size) {
        return errno.negative();
    }
    begin(image, completion, move |image| async move {
        let function = "rbd_aio_mirror_image_get_global_status";
        give(&image, found, GlobalStatus::unmirrored, function).await
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_aio_mirror_image_get_status(
    image: Handle<RbdImage>,
    found: Out<ImageStatus>,
    size: usize,
    completion: Handle<AioCompletion>,
) -> c_int {
    if let Err(errno) = check_size::<ImageStatus>(size) {
        return errno.negative();
    }
    begin(image, completion, move |image| async move {
        give(&image, found, ImageStatus::unmirrored, "rbd_aio_mirror_image_get_status").await
    })
}
