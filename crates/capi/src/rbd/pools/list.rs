//! The images of a pool.

use crate::border::{Errno, Handle, In, Out, call, copied_text, done, fill, free};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::rbd::lists::{give, joined};
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::{ImageEntry, list_with_ids};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// A pool's images. A namespace that is not there has none.
pub(super) async fn images(pool: &Pool) -> Result<Vec<ImageEntry>, Error> {
    match list_with_ids(pool).all().await {
        Err(Error::NotFound { .. }) => Ok(Vec::new()),
        other => other,
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_list(ioctx: Handle<IoCtx>, names: Out<u8>, size: Out<usize>) -> c_int {
    call(|| {
        let all = joined(block_on(images(&pool_of(ioctx)?))?.into_iter().map(|image| image.name));
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
        let all = block_on(images(&pool_of(ioctx)?))?;
        give(specs, most, &all, |image| {
            let (id, name) = (copied_text(&to_bytes(&image.id))?, copied_text(&to_bytes(&image.name))?);
            Ok(ImageSpec { id, name })
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
