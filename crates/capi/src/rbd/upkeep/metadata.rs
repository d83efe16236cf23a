//! What programs note at images.

use crate::border::{Errno, Handle, Out, Text, done, fill};
use crate::rbd::image::RbdImage;
use crate::rbd::lists::{joined, joined_values};
use crate::runtime::block_on;
use onego::rbd;
use onego_ceph::cls::rbd::MetadataList;
use std::collections::BTreeMap;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_get(image: Handle<RbdImage>, key: Text, value: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let (image, key) = (image.get()?, key.text()?);
        let found = block_on(rbd::metadata(image.pool(), image.image()?.info(), &key))?;
        fill(value, len, &[&found.ok_or(Errno::NOENT)?[..], b"\0"].concat())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_set(image: Handle<RbdImage>, key: Text, value: Text) -> c_int {
    done(|| {
        let (image, key, value) = (image.get()?, key.text()?, value.bytes()?);
        image.check_access()?;
        Ok(block_on(rbd::set_metadata(image.pool(), image.image()?.info(), &key, value))?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_metadata_remove(image: Handle<RbdImage>, key: Text) -> c_int {
    done(|| {
        let (image, key) = (image.get()?, key.text()?);
        image.check_access()?;
        let open = image.image()?;
        if block_on(rbd::metadata(image.pool(), open.info(), &key))?.is_none() {
            return Err(Errno::NOENT);
        }
        Ok(block_on(rbd::remove_metadata(image.pool(), open.info(), &key))?)
    })
}

/// Most entries where the program sets no bound.
pub(in crate::rbd) const MOST: u64 = 1024;

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
        let header = image.header_object();
        let entries = block_on(image.pool().call(&header, &call))?;
        give_entries(&entries, (keys, keys_len), (values, values_len))
    })
}

/// Gives keys and values, each with a zero behind it.
pub(in crate::rbd) fn give_entries(
    entries: &BTreeMap<String, Vec<u8>>,
    (keys, keys_len): (Out<u8>, Out<usize>),
    (values, values_len): (Out<u8>, Out<usize>),
) -> Result<(), Errno> {
    let filled = (
        fill(keys, keys_len, &joined(entries.keys())),
        fill(values, values_len, &joined_values(entries.values())),
    );
    filled.0.and(filled.1)
}
