//! What the libraries are called in rows and tables.

pub(super) const OURS: &str = "our library";
pub(super) const LIBRBD: &str = "librbd";
