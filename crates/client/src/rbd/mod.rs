//! RBD images.

mod admin;
mod ancestors;
mod clear;
pub mod clones;
mod create;
mod diff;
pub mod encryption;
mod header;
mod image;
mod maps;
pub mod migration;
mod objects;
mod open;
mod owner;
pub mod pools;
mod release;
mod resize;
mod snapshot;
pub mod snapshots;
mod sources;
mod streams;
mod submit;
pub mod upkeep;
mod view;
mod watch;

pub use admin::{ImageEntry, list, list_with_ids, remove};
pub use create::{CreateOptions, create};
pub use diff::{Diff, DiffEnd, DiffOptions, DiffRange};
pub use header::metadata::{all_metadata, metadata, remove_metadata, set_metadata};
pub use header::{ImageDetails, ImageInfo, Parent, ParentName, image_name, info};
pub use image::Image;
pub use onego_ceph::rbd::{Features, ImageFormat, Layout, LayoutError};
/// Diff streams and exported images in memory: decoding, encoding and merging.
pub use onego_rbd::stream;
pub use onego_rbd::{Error as ImageError, MAX_IO};
pub use resize::resize;
pub use streams::{ExportDiff, ExportImage, ImportDiff, ImportImage, ImportOptions};
pub use watch::{ImageEvent, ImageWatch, QuiesceRequest};
