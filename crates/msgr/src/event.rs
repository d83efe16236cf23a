//! What a connection tells its owner.

use crate::error::Error;
use crate::message::{Header, Message};
use crate::peer::Peer;
use onego_buf::SegmentMut;

/// Something that a connection has for its owner.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would cost every message an allocation")]
pub enum Event {
    /// Messages may flow.
    Ready(Peer),
    /// A message arrived.
    Message(Message),
    /// The buffer that the [`Placer`](crate::Placer) gave for the message with this header comes back without its payload: the
    /// sender gave the message up, or the connection is over.
    Unplaced(Header, SegmentMut),
    /// The connection cannot go on: close it.
    Fault(Error),
}

impl Event {
    /// What the owner hears of a message that was received before: its buffer comes back, if it had one.
    #[cold]
    pub(super) fn passed_over(message: Message) -> Option<Self> {
        let Message { header, placed, .. } = message;
        placed.map(|place| Self::Unplaced(header, place))
    }
}
