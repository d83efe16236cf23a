use crate::error::Error;
use crate::message::{Header, Message};
use crate::peer::Peer;
use onego_buf::SegmentMut;

/// Event that a connection reports to its owner.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would cost every message an allocation")]
pub enum Event {
    /// The handshake is complete: messages can be exchanged.
    Ready(Peer),
    /// A message arrived.
    Message(Message),
    /// Buffer that the [`Placer`](crate::Placer) gave for the message with this header, returned without its payload:
    /// the sender aborted the message or the connection is over.
    Unplaced(Header, SegmentMut),
    /// The connection failed and must be closed.
    Fault(Error),
}

impl Event {
    /// Returns the event for a duplicate message: its buffer, if it had one.
    #[cold]
    pub(super) fn duplicate(message: Message) -> Option<Self> {
        let Message { header, placed, .. } = message;
        placed.map(|place| Self::Unplaced(header, place))
    }
}
