//! Images of our embedded cluster.

pub(in crate::interop) mod commands;
