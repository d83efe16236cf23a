//! RBD images.

mod admin;
mod clear;
mod flush;
mod header;
mod image;
pub(crate) mod io;
mod metadata;

pub use admin::{CreateOptions, create, list, remove, resize};
pub use header::{ImageInfo, Parent, info};
pub(crate) use header::{parse_size, size_query};
pub use image::Image;
pub use io::MAX_IO;
pub use metadata::{metadata, remove_metadata, set_metadata};
pub use onego_ceph::rbd::{Features, Layout, LayoutError};
