//! RBD images.

mod admin;
mod clear;
mod header;
mod image;
mod metadata;
mod snapshots;
mod submit;

pub use admin::{CreateOptions, create, list, remove, resize};
pub use header::{ImageInfo, Parent, info};
pub use image::Image;
pub use metadata::{metadata, remove_metadata, set_metadata};
pub use onego_ceph::rbd::{Features, Layout, LayoutError};
pub use onego_rbd::{Error as ImageError, MAX_IO};
