//! Clones: images that show a snapshot's bytes where they have none of their own.

mod children;
mod clone;
mod flatten;

pub(super) use children::counted_children;
pub use children::{Child, children};
pub use clone::{CloneFormat, clone};
pub(super) use clone::{attach, copy_metadata};
pub use flatten::flatten;
