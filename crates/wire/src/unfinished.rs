/// A message of which a part has come and a part has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unfinished {
    /// Bytes that it is announced to have, as far as that is known.
    pub announced: usize,
    /// Bytes of it that are held in memory.
    pub held: usize,
}
