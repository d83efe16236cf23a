//! What a protocol brings.

use onego_buf::{List, SegmentMut};
use onego_wire::{Landing, Time, Unfinished};

/// The server's end of one connection: a protocol without I/O.
pub trait ServerConnection {
    /// Where the next bytes go.
    fn landing(&mut self) -> Landing;

    /// A receive buffer of the last [`landing`](Self::landing) is back. Its first `filled` bytes were received.
    fn landed(&mut self, now: Time, buffer: SegmentMut, filled: usize);

    /// The message of which a part has come and a part has not.
    fn unfinished(&self) -> Option<Unfinished>;

    /// Are there messages that wait until the replies before them are sent? Nothing is read meanwhile.
    fn defers(&self) -> bool;

    /// Is there something to send?
    fn has_output(&self) -> bool;

    /// Appends to `out` what is to be sent, about `limit` bytes of it.
    fn transmit(&mut self, out: &mut List, limit: usize);

    /// Bytes of replies that wait to be sent.
    fn unsent(&self) -> usize;

    /// Most bytes of the replies that are still to be made.
    fn to_come(&self) -> usize {
        0
    }

    /// Nothing is read for a while: lets go of receive memory that is shared with other connections.
    fn settle(&mut self) {}

    /// The server has stopped to read because of the replies that wait, or reads again.
    fn stopped(&mut self, _now: Time, _stopped: bool) {}

    /// What is said after all replies, when the server closes the connection.
    fn last_words(&mut self) -> List {
        List::new()
    }

    /// The connection is gone. Receive buffers that are out still come back.
    fn closed(&mut self) {}

    /// When [`timeout`](Self::timeout) is to be called.
    fn deadline(&self) -> Option<Time>;

    /// The deadline has passed.
    fn timeout(&mut self, now: Time);
}
