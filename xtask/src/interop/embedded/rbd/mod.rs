//! Images of our embedded cluster.

pub(in crate::interop) mod commands;
mod old_format;
