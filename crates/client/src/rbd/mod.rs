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
mod owner;
pub mod pools;
mod release;
mod remote;
mod snapshot;
mod snapshot_id;
pub mod snapshots;
mod submit;
pub mod upkeep;
mod view;

pub use admin::{CreateOptions, create, list, remove, resize};
pub use details::{ImageDetails, ParentName};
pub use header::{ImageInfo, Parent, info};
pub use image::Image;
pub use metadata::{all_metadata, metadata, remove_metadata, set_metadata};
pub use onego_ceph::rbd::{Features, Layout, LayoutError};
pub use onego_rbd::{Error as ImageError, MAX_IO};
