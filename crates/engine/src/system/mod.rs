//! System services other than sockets.

pub(crate) mod clock;
pub mod credentials;
pub(crate) mod file_handle;
pub(crate) mod heap;
pub(crate) mod random;
