//! Programs that were built for librados and librbd, on our library under these names.

pub(crate) mod library;
