/// A hash over everything that happened in a simulation, in order. Two runs with the same trace did the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    all: u64,
    /// The same without what the bytes were that were sent.
    course: u64,
}

/// FNV-1a's basis: the hash of nothing.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Only equality matters, so words are mixed in whole.
fn mix(hash: &mut u64, word: u64) {
    *hash = (*hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self { all: BASIS, course: BASIS }
    }

    pub(crate) fn note(&mut self, words: impl IntoIterator<Item = u64>) {
        for word in words {
            mix(&mut self.all, word);
            mix(&mut self.course, word);
        }
    }

    /// Bytes were sent, with that checksum.
    pub(crate) fn note_content(&mut self, checksum: u32) {
        mix(&mut self.all, checksum.into());
    }

    pub(crate) fn hash(self) -> u64 {
        self.all
    }

    pub(crate) fn course(self) -> u64 {
        self.course
    }
}
