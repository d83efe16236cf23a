//! Images that are named with their pools.

use crate::border::{Errno, In, call, copied_text, free};
use onego_wire::text::to_bytes;
use std::ffi::c_char;

/// An image that is linked to another one (`rbd_linked_image_spec_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LinkedImage {
    pool_id: i64,
    pool: *mut c_char,
    namespace: *mut c_char,
    id: *mut c_char,
    name: *mut c_char,
    in_trash: bool,
}

/// The same, in our memory. In lists they are in the order of their names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Linked {
    pub(super) pool_id: i64,
    pub(super) pool: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) id: String,
    pub(super) in_trash: bool,
}

impl Linked {
    pub(super) fn copied(&self) -> Result<LinkedImage, Errno> {
        Ok(LinkedImage {
            pool_id: self.pool_id,
            pool: copied_text(&to_bytes(&self.pool))?,
            namespace: copied_text(&to_bytes(&self.namespace))?,
            id: copied_text(&to_bytes(&self.id))?,
            name: copied_text(&to_bytes(&self.name))?,
            in_trash: self.in_trash,
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_linked_image_spec_cleanup(image: In<LinkedImage>) {
    rbd_linked_image_spec_list_cleanup(image, 1);
}

#[unsafe(no_mangle)]
extern "C" fn rbd_linked_image_spec_list_cleanup(images: In<LinkedImage>, count: usize) {
    call(|| {
        for image in images.slice(count)? {
            for text in [image.pool, image.namespace, image.id, image.name] {
                free(text.cast());
            }
        }
        Ok(())
    });
}
