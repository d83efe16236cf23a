//! Features of images, and their names.

use super::image::RbdImage;
use crate::border::{Errno, Handle, Out, Text, done, fill};
use onego::rbd::Features;
use onego::rbd::upkeep::{disable_features, enable_features};
use onego_wire::text::to_bytes;
use std::ffi::c_int;

#[unsafe(no_mangle)]
extern "C" fn rbd_features_to_string(features: u64, text: Out<u8>, len: Out<usize>) -> c_int {
    done(|| {
        let mut names = Features(features).names();
        names.sort_unstable();
        // What has no name is given as a number.
        if names.iter().any(|name| name.starts_with("0x")) {
            return Err(Errno::INVAL);
        }
        fill(text, len, &[&*to_bytes(&names.join(",")), b"\0"].concat())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_features_from_string(text: Text, features: Out<u64>) -> c_int {
    done(|| {
        let text = text.text()?;
        // A number is one, too.
        let number = text.parse().ok().map(Features);
        let named = || text.parse::<Features>().map_err(|_| Errno::INVAL);
        features.set(number.map_or_else(named, Ok)?.0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_update_features(image: Handle<RbdImage>, features: u64, enabled: u8) -> c_int {
    done(|| {
        let (image, features) = (image.get()?, Features(features));
        image.check_head()?;
        image.change(async |pool, name| match enabled {
            0 => disable_features(pool, name, features).await,
            _ => enable_features(pool, name, features).await,
        })
    })
}
