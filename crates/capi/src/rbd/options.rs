//! Options of new images (`rbd_image_options_t`).

use crate::border::{Errno, Handle, Out, Text, call, done};
use crate::runtime::lock;
use onego_wire::text::to_bytes;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// Numbers of the options (`RBD_IMAGE_OPTION_*`).
pub(super) mod option {
    use std::ffi::c_int;
    pub(in crate::rbd) const FORMAT: c_int = 0;
    pub(in crate::rbd) const FEATURES: c_int = 1;
    pub(in crate::rbd) const ORDER: c_int = 2;
    pub(in crate::rbd) const STRIPE_UNIT: c_int = 3;
    pub(in crate::rbd) const STRIPE_COUNT: c_int = 4;
    const JOURNAL_POOL: c_int = 7;
    pub(in crate::rbd) const FEATURES_SET: c_int = 8;
    pub(in crate::rbd) const FEATURES_CLEAR: c_int = 9;
    pub(in crate::rbd) const DATA_POOL: c_int = 10;
    pub(in crate::rbd) const FLATTEN: c_int = 11;
    pub(in crate::rbd) const CLONE_FORMAT: c_int = 12;
    /// The last there is.
    pub(in crate::rbd) const LAST: c_int = 13;

    /// Is its value a text?
    pub(in crate::rbd) fn is_text(option: c_int) -> bool {
        matches!(option, JOURNAL_POOL | DATA_POOL)
    }
}

/// The value of an option.
#[derive(Clone)]
pub(super) enum Value {
    Number(u64),
    Text(String),
}

/// Options of a new image.
#[derive(Default)]
pub(super) struct ImageOptions {
    values: Mutex<BTreeMap<c_int, Value>>,
}

impl ImageOptions {
    pub(super) fn number(&self, option: c_int) -> Option<u64> {
        match lock(&self.values).get(&option)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    pub(super) fn text(&self, option: c_int) -> Option<String> {
        match lock(&self.values).get(&option)? {
            Value::Text(text) => Some(text.clone()),
            Value::Number(_) => None,
        }
    }

    fn set(&self, option: c_int, value: Value) -> Result<(), Errno> {
        if option::is_text(option) != matches!(value, Value::Text(_)) {
            return Err(Errno::INVAL);
        }
        check(option)?;
        lock(&self.values).insert(option, value);
        Ok(())
    }
}

/// Fails of an option that there is not.
fn check(option: c_int) -> Result<(), Errno> {
    if (0..=option::LAST).contains(&option) { Ok(()) } else { Err(Errno::INVAL) }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_create(options: Out<Handle<ImageOptions>>) {
    call(|| options.give(Arc::default()));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_destroy(options: Handle<ImageOptions>) {
    call(|| options.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_set_string(
    options: Handle<ImageOptions>,
    option: c_int,
    value: Text,
) -> c_int {
    done(|| options.get()?.set(option, Value::Text(value.text()?.into_owned())))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_set_uint64(
    options: Handle<ImageOptions>,
    option: c_int,
    value: u64,
) -> c_int {
    done(|| options.get()?.set(option, Value::Number(value)))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_get_string(
    options: Handle<ImageOptions>,
    option: c_int,
    value: Out<u8>,
    len: usize,
) -> c_int {
    done(|| value.copy_text(&to_bytes(&options.get()?.text(option).ok_or(Errno::NOENT)?), len))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_get_uint64(
    options: Handle<ImageOptions>,
    option: c_int,
    value: Out<u64>,
) -> c_int {
    done(|| value.set(options.get()?.number(option).ok_or(Errno::NOENT)?))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_is_set(
    options: Handle<ImageOptions>,
    option: c_int,
    is_set: Out<bool>,
) -> c_int {
    done(|| {
        check(option)?;
        is_set.set(lock(&options.get()?.values).contains_key(&option))
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_unset(options: Handle<ImageOptions>, option: c_int) -> c_int {
    done(|| lock(&options.get()?.values).remove(&option).map(drop).ok_or(Errno::NOENT))
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_clear(options: Handle<ImageOptions>) {
    call(|| {
        lock(&options.get()?.values).clear();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_image_options_is_empty(options: Handle<ImageOptions>) -> c_int {
    call(|| Ok(lock(&options.get()?.values).is_empty().into()))
}
