/// Parameters of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyPlan {
    /// Offset of the first byte to copy; a multiple of [`piece`](Self::piece).
    pub start: u64,
    /// The destination reads as zeros from `start` on: zeros need not be written.
    pub reads_as_zeros: bool,
    /// Pieces in flight.
    pub depth: usize,
    /// Size of a piece in bytes, a power of two.
    pub piece: u64,
    /// Size of a block that is not written if it is all zeros: a power of two, at most a piece.
    pub grain: u64,
    /// Maximum distance between the first byte that is not copied and the last that is.
    pub span: u64,
}

impl CopyPlan {
    /// Default [`span`](Self::span): the bytes to copy again after an interruption that left only the destination.
    pub const SPAN: u64 = 64 << 20;
}

impl Default for CopyPlan {
    /// Returns a plan for all bytes with 16 pieces of 1 MiB in flight, skipping zeros in blocks of 4 KiB.
    fn default() -> Self {
        Self { start: 0, reads_as_zeros: false, depth: 16, piece: 1 << 20, grain: 4096, span: Self::SPAN }
    }
}
