//! What programs note at images.

use super::image::RbdImage;
use crate::border::{Errno, Handle, Out, Text, done, fill};
use crate::runtime::block_on;
use onego::rbd;
use onego_ceph::cls::rbd::MetadataList;
use onego_ceph::rbd::header_object;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_get(image: Handle<RbdImage>, key: Text, value: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let (image, key) = (image.get()?, key.text()?);
        let found = block_on(rbd::metadata(image.pool(), image.image.info(), &key))?;
        fill(value, len, &[&found.ok_or(Errno::NOENT)?[..], b"\0"].concat())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_set(image: Handle<RbdImage>, key: Text, value: Text) -> c_int {
    done(|| {
        let (image, key, value) = (image.get()?, key.text()?, value.bytes()?);
        Ok(block_on(rbd::set_metadata(image.pool(), image.image.info(), &key, value))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_remove(image: Handle<RbdImage>, key: Text) -> c_int {
    done(|| {
        let (image, key) = (image.get()?, key.text()?);
        let info = image.image.info();
        if block_on(rbd::metadata(image.pool(), info, &key))?.is_none() {
            return Err(Errno::NOENT);
        }
        Ok(block_on(rbd::remove_metadata(image.pool(), info, &key))?)
    })
}

/// Most entries where the program sets no bound.
const MOST: u64 = 1024;

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_list(
    image: Handle<RbdImage>,
    after: Text,
    most: u64,
    keys: Out<u8>,
    keys_len: Out<usize>,
    values: Out<u8>,
    values_len: Out<usize>,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let call = MetadataList {
            after: after.text_or_empty().into_owned(),
            max: if most == 0 { MOST } else { most },
        };
        let header = header_object(&image.image.info().id).to_string();
        let entries = block_on(image.pool().call(&header, &call))?;
        let with_zeros = |all: &mut dyn Iterator<Item = &[u8]>| all.collect::<Vec<_>>().join(&b'\0');
        let mut all_keys = with_zeros(&mut entries.keys().map(String::as_bytes));
        let mut all_values = with_zeros(&mut entries.values().map(Vec::as_slice));
        if !entries.is_empty() {
            all_keys.push(0);
            all_values.push(0);
        }
        let filled = (fill(keys, keys_len, &all_keys), fill(values, values_len, &all_values));
        filled.0.and(filled.1)
    })
}
