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
    /// Most bytes between the first byte that is not copied and the last that is.
    pub span: u64,
}

impl CopyPlan {
    /// The usual [`span`](Self::span): what is to be copied again after an interruption that left only the destination.
    pub const SPAN: u64 = 64 << 20;
}

impl Default for CopyPlan {
    /// All bytes, 16 pieces of a MiB at a time, without blocks of 4 KiB that are zeros.
    fn default() -> Self {
        Self { start: 0, reads_as_zeros: false, depth: 16, piece: 1 << 20, grain: 4096, span: Self::SPAN }
    }
}
