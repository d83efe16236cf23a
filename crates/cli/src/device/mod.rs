//! Devices, as command lines name them, and how they are opened on a thread.

mod open;
mod source;

pub(crate) use open::{Opener, Prepared};
pub(crate) use source::{SOURCES, Source};
