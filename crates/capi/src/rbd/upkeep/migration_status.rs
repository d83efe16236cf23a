//! How far moves of images are.

use crate::border::{Handle, In, Out, Text, call, copied_text, done, fill, free};
use crate::rados::IoCtx;
use crate::rbd::image::{RbdImage, pool_of};
use crate::rbd::lists::check_size;
use crate::runtime::block_on;
use onego::rbd::migration::{MigrationOrigin, source_spec, status};
use onego_wire::text::to_bytes;
use std::ffi::{c_char, c_int};

/// How far a migration is (`rbd_image_migration_status_t`).
#[repr(C)]
struct MigrationStatus {
    source_pool: i64,
    source_namespace: *mut c_char,
    source_name: *mut c_char,
    source_id: *mut c_char,
    destination_pool: i64,
    destination_namespace: *mut c_char,
    destination_name: *mut c_char,
    destination_id: *mut c_char,
    state: c_int,
    description: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_status(
    ioctx: Handle<IoCtx>,
    image: Text,
    found: Out<MigrationStatus>,
    size: usize,
) -> c_int {
    done(|| {
        check_size::<MigrationStatus>(size)?;
        let known = block_on(status(&pool_of(ioctx)?, &image.text()?))?;
        let destination = known.destination;
        let (source_pool, [namespace, name, id]) = match known.source {
            MigrationOrigin::Image(source) => (source.pool, [source.namespace, source.image, source.id]),
            MigrationOrigin::Import(_) => (-1, Default::default()),
        };
        found.set(MigrationStatus {
            source_pool,
            source_namespace: copied_text(&to_bytes(&namespace))?,
            source_name: copied_text(&to_bytes(&name))?,
            source_id: copied_text(&to_bytes(&id))?,
            destination_pool: destination.pool,
            destination_namespace: copied_text(&to_bytes(&destination.namespace))?,
            destination_name: copied_text(&to_bytes(&destination.image))?,
            destination_id: copied_text(&to_bytes(&destination.id))?,
            state: known.state.into(),
            description: copied_text(&to_bytes(&known.description))?,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_migration_status_cleanup(found: In<MigrationStatus>) {
    call(|| {
        if let Some(found) = found.get() {
            for text in [
                found.source_namespace,
                found.source_name,
                found.source_id,
                found.destination_namespace,
                found.destination_name,
                found.destination_id,
                found.description,
            ] {
                free(text.cast());
            }
        }
        Ok(())
    });
}

/// Where an image that is being moved here comes from, as JSON.
#[unsafe(no_mangle)]
extern "C" fn rbd_get_migration_source_spec(
    image: Handle<RbdImage>,
    text: Out<u8>,
    len: Out<usize>,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let json = block_on(source_spec(image.pool(), image.known()))?;
        fill(text, len, &[&*to_bytes(&json), b"\0"].concat())
    })
}
