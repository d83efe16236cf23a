//! Options of librbd, and who sets them: the program's own configuration, the pool, the image.

use super::options::OPTIONS;
use crate::border::{Errno, Handle, In, Out, call, copied_text, done, free};
use crate::rados::IoCtx;
use crate::rbd::image::{RbdImage, pool_of};
use crate::rbd::lists::give;
use crate::runtime::block_on;
use onego::rbd::all_metadata;
use onego::rbd::pools::pool_settings;
use onego_wire::text::{from_bytes, to_bytes};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

/// What keys of options begin with among the metadata (`ImageCtx::METADATA_CONF_PREFIX`).
const PREFIX: &str = "conf_";

/// Where an option is set (`RBD_CONFIG_SOURCE_*`).
#[derive(Clone, Copy)]
enum Source {
    Config,
    Pool,
    Image,
}

/// An option, its value, and who sets it (`rbd_config_option_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct ConfigOption {
    name: *mut c_char,
    value: *mut c_char,
    source: c_int,
}

/// Options by their names.
type Set = BTreeMap<&'static str, (String, Source)>;

/// What the configuration says; options that it does not set are what they are by nature.
fn configured(setting: impl Fn(&str) -> Option<String>) -> Set {
    let value = |name: &str, default: &str| setting(name).unwrap_or_else(|| default.to_owned());
    OPTIONS.iter().map(|(name, default)| (*name, (value(name, default), Source::Config))).collect()
}

/// Puts what metadata say over it.
fn put_over(set: &mut Set, metadata: &BTreeMap<String, Vec<u8>>, source: Source) {
    for (name, value) in set.iter_mut() {
        if let Some(set) = metadata.get(&format!("{PREFIX}{name}")) {
            *value = (from_bytes(set).into_owned(), source);
        }
    }
}

fn give_set(set: &Set, options: Out<ConfigOption>, most: Out<c_int>) -> Result<(), Errno> {
    let all: Vec<_> = set.iter().collect();
    give(options, most, &all, |(name, (value, source))| {
        Ok(ConfigOption {
            name: copied_text(&to_bytes(name))?,
            value: copied_text(&to_bytes(value))?,
            source: *source as c_int,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_config_pool_list(
    ioctx: Handle<IoCtx>,
    options: Out<ConfigOption>,
    most: Out<c_int>,
) -> c_int {
    done(|| {
        let conf = ioctx.get()?.rados().conf().clone();
        let mut set = configured(|name| conf.get(name));
        put_over(&mut set, &block_on(pool_settings(&pool_of(ioctx)?.in_namespace("")))?, Source::Pool);
        give_set(&set, options, most)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_config_image_list(
    image: Handle<RbdImage>,
    options: Out<ConfigOption>,
    most: Out<c_int>,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let mut set = configured(|name| image.setting(name));
        put_over(&mut set, &block_on(pool_settings(&image.pool().in_namespace("")))?, Source::Pool);
        let own = block_on(all_metadata(image.pool(), image.image()?.info()))?;
        put_over(&mut set, &own, Source::Image);
        give_set(&set, options, most)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_config_pool_list_cleanup(options: In<ConfigOption>, count: c_int) {
    call(|| {
        for option in options.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)? {
            free(option.name.cast());
            free(option.value.cast());
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn rbd_config_image_list_cleanup(options: In<ConfigOption>, count: c_int) {
    rbd_config_pool_list_cleanup(options, count);
}
