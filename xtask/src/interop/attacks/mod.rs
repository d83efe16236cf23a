//! Clients that lie, and clients that send what is no message: what they gain, and what they cost.

pub(crate) mod bad_input;
pub(crate) mod garbage;
pub(crate) mod memory;
pub(crate) mod nfs;
mod wire;
