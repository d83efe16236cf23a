//! RBD images: how they are laid out over objects, what they are called, what features they have.
//!
//! Pure arithmetic and encodings; the life of an image (create, open, resize, remove) is a sequence of requests that
//! the client crate makes. Source: ceph `src/include/rbd_types.h`, `doc/dev/file-striping.rst`, `src/librbd/`.

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
