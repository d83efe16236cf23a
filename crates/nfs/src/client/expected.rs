//! Low-water mark for receives, derived from the replies that a connection expects.

/// Approximate size of a reply without its payload. Too low is better than too high, which would delay the last bytes.
const REPLY_FRONT: usize = 100;

/// The mark is half of the expected bytes, so that the server works on the other half of the calls meanwhile.
const PARTS: usize = 2;

const MOST: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct ExpectedBytes {
    bytes: usize,
    mark: usize,
}

impl ExpectedBytes {
    pub(super) fn sent(&mut self, payload: usize) {
        self.bytes += payload + REPLY_FRONT;
    }

    pub(super) fn done(&mut self, payload: usize) {
        self.bytes -= payload + REPLY_FRONT;
    }

    /// Returns the low-water mark if it differs from the last one.
    pub(super) fn new_mark(&mut self) -> Option<usize> {
        // Powers of two, so that it changes rarely.
        let mark = 1 << (self.bytes / PARTS).clamp(1, MOST).ilog2();
        (std::mem::replace(&mut self.mark, mark) != mark).then_some(mark)
    }
}
