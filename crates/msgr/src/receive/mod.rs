//! Parts of arriving messages, for both protocol versions.

pub(crate) mod body;
pub(crate) mod buffer;
pub(crate) mod gather;
pub(crate) mod memory;
