//! The streams that `rbd export-diff`, `rbd merge-diff` and `rbd export --export-format 2` write, byte for byte.
//!
//! Sources: ceph `doc/dev/rbd-diff.rst`, `doc/dev/rbd-export.rst`.

mod decoder;
mod error;
mod image;
mod input;
mod merge;
mod record;

pub use decoder::{DiffDecoder, DiffEvent};
pub use error::{MergeError, StreamError};
pub use image::{ImageDecoder, ImageEvent, ImageRecord, MAX_METADATA};
pub use merge::{Merge, MergeInput, MergeStep};
pub use record::{DiffRecord, DiffVersion, MAX_NAME};
