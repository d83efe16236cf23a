/// Partly received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unfinished {
    /// Announced size in bytes, as far as it is known.
    pub announced: usize,
    /// Bytes of it held in memory.
    pub held: usize,
}
