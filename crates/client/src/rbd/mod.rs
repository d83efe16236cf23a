//! RBD images.

mod admin;
mod clear;
pub mod clones;
mod details;
mod header;
mod image;
mod maps;
mod metadata;
mod objects;
pub mod pools;
mod release;
mod snapshot;
pub mod snapshots;
mod submit;
pub mod upkeep;
mod view;

pub use crate::ceph::image_io::MAX_IO;
pub use admin::{CreateOptions, create, list, remove, resize};
pub use details::ImageDetails;
pub use header::{ImageInfo, Parent, info};
pub use image::Image;
pub use metadata::{all_metadata, metadata, remove_metadata, set_metadata};
pub use onego_ceph::rbd::{Features, Layout, LayoutError};
