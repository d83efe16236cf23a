//! The header of an image: where it is, what it says, and how it is changed. It has two forms, one for each format of images; what
//! differs is in [`v1`] and [`v2`], and nothing above this module asks which of them an image has, but where the formats differ
//! in what images can do.

mod details;
mod forms;
mod handle;
mod info;
mod lookup;
pub(crate) mod metadata;
mod place;
pub(super) mod v1;
mod v2;

pub(crate) use details::time;
pub use details::{ImageDetails, ParentName};
pub(crate) use handle::Header;
pub use info::{ImageInfo, Parent};
pub(crate) use lookup::check_new_name;
pub use lookup::{image_name, info};
pub(crate) use place::{
    GROUP_DIRECTORY, NAMESPACES, TRASH, check_namespace, describe, namespace_exists, place,
};
