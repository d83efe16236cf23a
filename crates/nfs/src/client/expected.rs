//! How many bytes of replies a connection expects, and the low-water mark that follows.

/// Bytes of a reply beside its payload, roughly. An estimate that is too low is better than one that is too high, which
/// would delay the last bytes.
const REPLY_FRONT: usize = 100;

/// The mark is half of the expected bytes, so that the server works on the other half of the calls meanwhile.
const PARTS: usize = 2;

/// The largest mark.
const MOST: usize = 1 << 20;

/// The bytes that a connection expects.
///
/// With one call at a time, only the rest of a reply is waited for. With many in flight, replies that a server sends one by
/// one are received many at a time.
#[derive(Debug, Default)]
pub(super) struct ExpectedBytes {
    /// Bytes of replies that are to come.
    bytes: usize,
    /// The mark that the driver has.
    mark: usize,
}

impl ExpectedBytes {
    /// A call was sent whose reply has at most `payload` bytes of payload.
    pub(super) fn sent(&mut self, payload: usize) {
        self.bytes += payload + REPLY_FRONT;
    }

    /// Its reply has arrived, or nobody waits for it any more.
    pub(super) fn done(&mut self, payload: usize) {
        self.bytes -= payload + REPLY_FRONT;
    }

    /// The low-water mark, if it differs from the driver's.
    pub(super) fn new_mark(&mut self) -> Option<usize> {
        // In powers of two, so that it changes rarely.
        let mark = 1 << (self.bytes / PARTS).clamp(1, MOST).ilog2();
        (std::mem::replace(&mut self.mark, mark) != mark).then_some(mark)
    }
}
