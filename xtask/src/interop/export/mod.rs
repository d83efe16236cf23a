//! Devices that we export, and programs that use them.

pub(super) mod devices;
pub(super) mod nbd;
mod tls;
