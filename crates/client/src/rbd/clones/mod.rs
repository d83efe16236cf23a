//! Clones: images that show the data of a parent snapshot where they have none of their own.

mod children;
mod clone;
mod flatten;

pub use children::{Child, children, children_of_id};
pub(super) use children::{children_at, counted_children, has_children};
pub use clone::{CloneFormat, clone, clone_by_id};
pub(super) use clone::{attach, copy_metadata};
pub use flatten::flatten;
pub(super) use flatten::{check_key, copy_down, end_clone};
