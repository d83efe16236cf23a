//! Encrypted images: LUKS within the image.

use crate::border::{Errno, Handle, In, done};
use crate::rbd::image::RbdImage;
use crate::runtime::block_on;
use onego::rbd::Image;
use onego::rbd::encryption::{EncryptionOptions, EncryptionSpec, KeySize, LuksVersion};
use std::ffi::c_int;

/// What an image is formatted in (`RBD_ENCRYPTION_FORMAT_*`).
const LUKS1: c_int = 0;
const LUKS2: c_int = 1;
/// Any of the two.
const LUKS: c_int = 2;

/// A cipher and a passphrase (`rbd_encryption_luks1_format_options_t`, and that of LUKS2).
#[repr(C)]
struct FormatOptions {
    algorithm: c_int,
    passphrase: In<u8>,
    passphrase_len: usize,
}

/// A passphrase (`rbd_encryption_luks_format_options_t`).
#[repr(C)]
struct LoadOptions {
    passphrase: In<u8>,
    passphrase_len: usize,
}

/// How an image, or an ancestor of it, is opened (`rbd_encryption_spec_t`).
#[repr(C)]
struct Spec {
    format: c_int,
    options: In<u8>,
    size: usize,
}

fn version(format: c_int) -> Result<LuksVersion, Errno> {
    match format {
        LUKS1 => Ok(LuksVersion::One),
        LUKS2 => Ok(LuksVersion::Two),
        _ => Err(Errno::INVAL),
    }
}

/// The options of a format, which have the size of their kind.
fn options<T>(options: &In<u8>, size: usize) -> Result<In<T>, Errno> {
    if size != size_of::<T>() || options.is_null() {
        return Err(Errno::INVAL);
    }
    Ok(options.cast())
}

/// The image is used by its encryption from then on, unless it is a clone.
#[unsafe(no_mangle)]
extern "C" fn rbd_encryption_format(
    image: Handle<RbdImage>,
    format: c_int,
    given: In<u8>,
    size: usize,
) -> c_int {
    done(|| {
        let image = image.get()?;
        let given = options::<FormatOptions>(&given, size)?;
        let given = given.get().ok_or(Errno::INVAL)?;
        let passphrase = given.passphrase.slice(given.passphrase_len)?;
        let key_size = match given.algorithm {
            0 => KeySize::Aes128,
            1 => KeySize::Aes256,
            _ => return Err(Errno::INVAL),
        };
        image.check_head()?;
        let version = version(format)?;
        let wanted = EncryptionOptions::new(version, passphrase).with_key_size(key_size);
        let spec = EncryptionSpec::new(passphrase).with_version(version);
        let (pool, known) = (image.pool(), image.known());
        let open = image.image()?;
        // A clone's parent may want a passphrase of its own, which is not known yet.
        if open.info().parent.is_some() && !open.is_encrypted() {
            return Ok(block_on(open.format_encryption(&wanted))?);
        }
        drop(open);
        image.replace(async |open| {
            // What is loaded shows the data alone, and the header lies before it.
            let plain = if open.is_encrypted() { Image::open_known(pool, known).await? } else { open };
            plain.format_encryption(&wanted).await?;
            plain.load_encryption(&[spec]).await
        })
    })
}

fn spec(given: &Spec) -> Result<EncryptionSpec, Errno> {
    if given.format == LUKS {
        let given = options::<LoadOptions>(&given.options, given.size)?;
        let given = given.get().ok_or(Errno::INVAL)?;
        return Ok(EncryptionSpec::new(given.passphrase.slice(given.passphrase_len)?));
    }
    let version = version(given.format)?;
    let given = options::<FormatOptions>(&given.options, given.size)?;
    let given = given.get().ok_or(Errno::INVAL)?;
    Ok(EncryptionSpec::new(given.passphrase.slice(given.passphrase_len)?).with_version(version))
}

fn load(image: Handle<RbdImage>, specs: &[Spec]) -> Result<(), Errno> {
    let specs = specs.iter().map(spec).collect::<Result<Vec<_>, _>>()?;
    image.get()?.replace(async |open| open.load_encryption(&specs).await)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_encryption_load(
    image: Handle<RbdImage>,
    format: c_int,
    given: In<u8>,
    size: usize,
) -> c_int {
    done(|| load(image, &[Spec { format, options: given, size }]))
}

/// The first is the image's, the next its parent's, and so on.
#[unsafe(no_mangle)]
extern "C" fn rbd_encryption_load2(image: Handle<RbdImage>, specs: In<Spec>, count: usize) -> c_int {
    done(|| {
        if count == 0 {
            return Err(Errno::INVAL);
        }
        load(image, specs.slice(count)?)
    })
}
