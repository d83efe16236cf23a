//! Version-specific part of the protocol: handshake and frame layout.
//!
//! [`Connection`](crate::Connection) has everything that the versions share.

use crate::claim::{Claim, Refusal};
use crate::error::Error;
use crate::message::{Header, Message, Placer};
use crate::peer::Peer;
use crate::state::SessionState;
use crate::types::Utime;
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time, Unfinished};
use std::fmt;
use std::net::SocketAddr;

#[derive(Debug)]
pub(crate) enum Input<F> {
    /// A message. [`Receive::take_message`] returns it, so that it moves only once.
    Message,
    /// Message that the sender aborted, with the buffer meant for its payload.
    Aborted(Header, SegmentMut),
    Frame(F),
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the value is consumed immediately")]
pub(crate) enum FrameEffect {
    /// No effect, except that the peer is alive.
    Nothing,
    Ready(Peer),
    /// The peer requests a keepalive answer with this stamp.
    Keepalive(Utime),
    /// The peer has received the messages up to this number.
    Ack(u64),
}

impl From<Option<Peer>> for FrameEffect {
    fn from(peer: Option<Peer>) -> Self {
        peer.map_or(Self::Nothing, Self::Ready)
    }
}

/// Receiver of a connection: splits the byte stream into frames, wherever it is cut.
pub(crate) trait Receive {
    type Frame;

    fn landing(&mut self) -> Landing;

    /// Takes back the buffer handed out by [`landing`](Self::landing) with `filled` more bytes.
    fn landed(&mut self, rest: SegmentMut, filled: usize);

    fn unfinished(&self) -> Option<Unfinished>;

    /// Takes the header and buffer of the payload being received, unless a receive holds the buffer.
    fn take_place(&mut self) -> Option<(Header, SegmentMut)>;

    /// Returns the next complete input from earlier bytes and `bytes`, or `None` once all bytes are consumed. The
    /// caller takes a message before calling again.
    fn next(
        &mut self,
        bytes: &mut Segment,
        placer: &mut dyn Placer,
    ) -> Result<Option<Input<Self::Frame>>, Error>;

    fn header(&self) -> &Header;

    fn take_message(&mut self) -> Message;
}

/// Handshake, receiver and sender of one connection in one protocol version.
pub(crate) trait Protocol: fmt::Debug {
    type Receiver: Receive;

    /// Starts the handshake on an open transport; `local` is this side's address.
    fn open(&mut self, local: SocketAddr);

    fn receiver(&self) -> &Self::Receiver;

    fn receiver_mut(&mut self) -> &mut Self::Receiver;

    #[inline]
    fn take_message(&mut self) -> Message {
        self.receiver_mut().take_message()
    }

    fn frame(
        &mut self,
        now: Time,
        frame: <Self::Receiver as Receive>::Frame,
        session: &mut SessionState,
    ) -> Result<FrameEffect, Error>;

    /// Processes a message received before the connection was ready.
    fn early_message(
        &mut self,
        now: Time,
        message: Message,
        session: &mut SessionState,
    ) -> Result<FrameEffect, Error>;

    fn claim(&self) -> Option<&Claim>;

    fn admit(&mut self, session: &mut SessionState) -> Result<FrameEffect, Error>;

    fn refuse(&mut self, refusal: Refusal, session: &SessionState);

    fn request_keepalive(&mut self, now: Time);

    fn answer_keepalive(&mut self, stamp: Utime);

    /// Returns whether there is output besides the session's messages.
    fn has_output(&self) -> bool;

    fn transmit_handshake(&mut self, out: &mut List, session: &mut SessionState);

    /// Appends control frames, acknowledgements and about `limit` bytes of messages to `out`.
    fn transmit(&mut self, out: &mut List, limit: usize, session: &mut SessionState);

    /// Closes the connection: drops the handshake and all pending output.
    fn close(&mut self);
}
