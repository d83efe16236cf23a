//! What import and export have in common.

/// Bytes of one read or write of a file, and of the image: a part of an object, and enough to cost little.
pub(crate) const PIECE: u64 = 1 << 20;

/// Pieces in flight: more than any network keeps on its way, and little memory.
pub(crate) const WINDOW: usize = 32;

/// What a path is called that means standard input or output.
pub(crate) const STANDARD: &str = "-";
