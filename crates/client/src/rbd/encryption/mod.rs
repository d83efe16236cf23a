//! Encrypted images: LUKS inside the image, as in librbd.
//!
//! [`Image::format_encryption`](super::Image::format_encryption) writes a header to an image, and
//! [`Image::load_encryption`](super::Image::load_encryption) unlocks it, together with those of its ancestors.
//!
//! Source: ceph `src/librbd/crypto/`, `doc/rbd/rbd-encryption.rst`.

mod format;
mod load;
mod on_thread;

pub use crate::encryption_error::EncryptionError;
pub use format::EncryptionOptions;
pub use load::EncryptionSpec;
pub use onego_luks::{Costs as EncryptionCosts, Error as LuksError, KeySize, Version as LuksVersion};
pub use onego_rbd::Misfit;
