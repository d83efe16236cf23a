//! Devices that we export, and programs that use them.

pub(super) mod nbd;
