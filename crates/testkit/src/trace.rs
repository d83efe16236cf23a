/// A hash over everything that happened in a simulation, in order. Two runs with the same trace did the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace(u64);

impl Trace {
    /// The hash of nothing: FNV-1a's basis. Only equality matters, so words are mixed in whole.
    pub(crate) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn note(&mut self, words: impl IntoIterator<Item = u64>) {
        for word in words {
            self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    pub(crate) fn hash(self) -> u64 {
        self.0
    }
}
