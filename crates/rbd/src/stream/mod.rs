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
pub use image::{ImageDecoder, ImageEvent, ImageRecord};
pub use merge::{Merge, MergeInput, MergeStep};
pub use record::{DiffRecord, DiffVersion};

/// Most bytes of a snapshot's name or of a key, as Ceph's importer bounds them.
pub const MAX_NAME: u64 = 4096;

/// Most bytes of a key with its value in the header of an image.
pub const MAX_METADATA: u64 = 1 << 20;
