//! Devices, as command lines name them, and how they are opened on a thread.

mod encryption;
mod files;
mod open;
mod source;

pub(crate) use encryption::{EncryptionArgs, decrypted, open_image, read_passphrase};
pub(crate) use files::{FileArgs, format_of_new, hint_at_image, refusal};
pub(crate) use open::{Opener, Prepared};
pub(crate) use source::{SOURCES, Source};
