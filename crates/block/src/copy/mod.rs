//! Copies the bytes of one device to another.
//!
//! A [`Copier`] is a machine without connections, driven together with what carries out the requests of the devices. It asks
//! the source which of its bytes are zeros, reads the others in pieces, a bounded number at a time, leaves zeros out where it
//! finds them in what it has read, and flushes at the end.

mod error;
mod extents;
mod handle;
mod machine;
mod zeros;

pub use error::{CopyError, Side};
pub use handle::{CopyHandle, CopyProgress};
pub use machine::Copier;
pub use zeros::data_in;

/// How a copy is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyPlan {
    /// The first byte that is copied; a multiple of [`piece`](Self::piece).
    pub start: u64,
    /// The destination reads as zeros from `start` on: zeros need not be written.
    pub reads_as_zeros: bool,
    /// Pieces that are on their way at a time.
    pub depth: usize,
    /// Bytes of a piece, a power of two.
    pub piece: u64,
    /// Bytes of a block that is not written if it is zeros: a power of two, and at most a piece.
    pub grain: u64,
}

impl CopyPlan {
    /// How far behind the first byte that is not copied bytes may be that are: what is to be copied again after an
    /// interruption that has left nothing but the destination.
    pub const SPAN: u64 = 64 << 20;
}

impl Default for CopyPlan {
    /// All bytes, 16 pieces of a MiB at a time, without blocks of 4 KiB that are zeros.
    fn default() -> Self {
        Self { start: 0, reads_as_zeros: false, depth: 16, piece: 1 << 20, grain: 4096 }
    }
}
