//! RBD images: their layout over objects, their names and their features.
//!
//! Pure arithmetic and encodings; the client crate implements the lifecycle of an image (create, open, resize, remove) as
//! sequences of requests. Source: ceph `src/include/rbd_types.h`, `doc/dev/file-striping.rst`, `src/librbd/`.

mod features;
mod format;
mod layout;
mod names;
mod notify;

pub use features::Features;
pub use format::ImageFormat;
pub use layout::{Extent, Layout, LayoutError, MAX_ORDER, MIN_ORDER};
pub use names::{DIRECTORY, DataNames, header_object, id_object, valid_image_name};
pub use notify::HEADER_UPDATE;
