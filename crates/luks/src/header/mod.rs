//! What the first bytes of a disk say.

mod facts;
mod json;
mod luks1;
mod luks2;
mod magic;
mod parse;

pub(crate) use facts::{CIPHER, STRIPES, slot_length};
pub use facts::{KeySlot, LuksHeader, Version};
pub(crate) use luks1::{ACTIVE, INACTIVE, SLOTS as LUKS1_SLOTS};
pub(crate) use luks2::{BINARY as LUKS2_BINARY, checksum};
pub(crate) use magic::{LUKS as MAGIC, LUKS2_SMALLEST, SECOND as SECOND_MAGIC};
pub use magic::{hide, is_hidden, is_luks};
