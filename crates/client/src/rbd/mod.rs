//! RBD images.

mod admin;
mod ancestors;
mod clear;
pub mod clones;
mod details;
mod diff;
pub mod encryption;
mod header;
mod image;
mod maps;
mod metadata;
pub mod migration;
mod objects;
mod open;
mod owner;
pub mod pools;
mod release;
mod snapshot;
mod snapshot_id;
pub mod snapshots;
mod streams;
mod submit;
pub mod upkeep;
mod view;
mod watch;

pub use admin::{CreateOptions, create, list, remove, resize};
pub use details::{ImageDetails, ParentName, image_name};
pub use diff::{Diff, DiffEnd, DiffOptions, DiffRange};
pub use header::{ImageInfo, Parent, info};
pub use image::Image;
pub use metadata::{all_metadata, metadata, remove_metadata, set_metadata};
pub use onego_ceph::rbd::{Features, Layout, LayoutError};
/// Streams in memory: how diffs and exported images are decoded, encoded and merged.
pub use onego_rbd::stream;
pub use onego_rbd::{Error as ImageError, MAX_IO};
pub use streams::{ExportDiff, ExportImage, ImportDiff, ImportImage, ImportOptions};
pub use watch::{ImageEvent, ImageWatch, QuiesceRequest};
