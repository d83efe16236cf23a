//! The images of a pool.

use crate::border::{Errno, Handle, In, Out, call, copied_text, done, fill, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::{give, joined};
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rados::Pool;
use onego_ceph::cls::rbd::DirList;
use onego_ceph::rbd::DIRECTORY;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

/// Entries asked for at a time.
const PAGE: u64 = 1024;

/// Names of a pool's images, and their ids.
pub(super) async fn images(pool: &Pool) -> Result<BTreeMap<String, String>, Error> {
    let mut images = BTreeMap::new();
    loop {
        let after = images.last_key_value().map(|(name, _): (&String, _)| name.clone()).unwrap_or_default();
        match pool.call(DIRECTORY, &DirList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(images),
            page => {
                let page = page?;
                let is_last = (page.len() as u64) < PAGE;
                images.extend(page);
                if is_last {
                    return Ok(images);
                }
            }
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list(ioctx: Handle<IoCtx>, names: Out<u8>, size: Out<usize>) -> c_int {
    call(|| {
        let all = joined(block_on(images(&pool_of(ioctx)?))?.keys());
        fill(names, size, &all)?;
        Ok(all.len() as c_int)
    })
}

/// Id and name of an image (`rbd_image_spec_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ImageSpec {
    id: *mut c_char,
    name: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list2(ioctx: Handle<IoCtx>, specs: Out<ImageSpec>, most: Out<usize>) -> c_int {
    done(|| {
        let all: Vec<_> = block_on(images(&pool_of(ioctx)?))?.into_iter().collect();
        give(specs, most, &all, |(name, id)| {
            Ok(ImageSpec { id: copied_text(id.as_bytes())?, name: copied_text(name.as_bytes())? })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_spec_cleanup(spec: In<ImageSpec>) {
    rbd_image_spec_list_cleanup(spec, 1);
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_spec_list_cleanup(specs: In<ImageSpec>, count: usize) {
    call(|| -> Result<(), Errno> {
        for spec in specs.slice(count)? {
            free(spec.id.cast());
            free(spec.name.cast());
        }
        Ok(())
    });
}
