//! LUKS1 and LUKS2 without I/O: [`LuksHeader`] is what the first bytes of a disk say, [`unlock`](LuksHeader::unlock) gives the key
//! of its data for a passphrase, [`Sectors`] encrypts and decrypts with it, and [`Format`] makes headers.
//!
//! Sources: "LUKS On-Disk Format Specification" 1.2.3, "LUKS2 On-Disk Format Specification" 1.1.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod error;
mod format;
mod header;
mod kdf;
mod key;
mod sectors;
mod stripes;

pub use error::Error;
pub use format::{Costs, Format, Formatted, KeySize};
pub use header::{KeySlot, LuksHeader, Version, hide, is_hidden, is_luks};
pub use kdf::Budget;
pub use key::VolumeKey;
pub use sectors::Sectors;
