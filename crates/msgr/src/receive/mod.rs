//! Parts of messages as they come in, in both versions.

pub(crate) mod body;
pub(crate) mod buffer;
pub(crate) mod gather;
pub(crate) mod memory;
