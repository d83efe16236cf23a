//! The header of an image: lookup, reads and changes. It has two formats, implemented in [`v1`] and [`v2`]; code
//! above this module depends on the format only where the capabilities of images differ.

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
