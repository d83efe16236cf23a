//! What a version of the protocol does in its own way: the handshake, and how frames lie on the wire.
//!
//! [`Connection`](crate::Connection) has all that the versions share.

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

/// Something whole that was received.
#[derive(Debug)]
pub(crate) enum Input<F> {
    /// A message. [`Receive::take_message`] returns it: it moves once, to where it stays.
    Message,
    /// The sender gave a message up half way. The buffer was meant for its payload.
    Aborted(Header, SegmentMut),
    /// Anything else.
    Frame(F),
}

/// What a frame that is no message means to the connection.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is looked at where it comes from, and gone")]
pub(crate) enum Meaning {
    /// Nothing beyond the sign of life that every frame is.
    Nothing,
    /// The handshake is complete.
    Ready(Peer),
    /// The peer asks for a sign of life with this stamp.
    Keepalive(Utime),
    /// The peer has received the messages up to this number.
    Ack(u64),
}

impl From<Option<Peer>> for Meaning {
    fn from(peer: Option<Peer>) -> Self {
        peer.map_or(Self::Nothing, Self::Ready)
    }
}

/// The receiver of a connection: it takes the stream of bytes apart, wherever it is cut.
pub(crate) trait Receive {
    /// What is received beside messages.
    type Frame;

    /// Where the next bytes go.
    fn landing(&mut self) -> Landing;

    /// The buffer handed out by [`landing`](Self::landing) comes back with `filled` bytes more.
    fn landed(&mut self, rest: SegmentMut, filled: usize);

    /// The message of which a part has come and a part has not.
    fn unfinished(&self) -> Option<Unfinished>;

    /// The header, and the buffer of the payload that is being received, unless a receive has it.
    fn take_place(&mut self) -> Option<(Header, SegmentMut)>;

    /// The next whole thing in `bytes` and what came before. `None`: all bytes are used up. The caller takes a
    /// message before it asks again.
    fn next(
        &mut self,
        bytes: &mut Segment,
        placer: &mut dyn Placer,
    ) -> Result<Option<Input<Self::Frame>>, Error>;

    /// The header of the message that [`next`](Self::next) has returned.
    fn header(&self) -> &Header;

    /// The message that [`next`](Self::next) has returned.
    fn take_message(&mut self) -> Message;
}

/// One connection's handshake, receiver and sender, in one version of the protocol.
pub(crate) trait Dialect: fmt::Debug {
    /// Takes the stream of bytes apart.
    type Receiver: Receive;

    /// The transport is open; `local` is this side's address.
    fn open(&mut self, local: SocketAddr);

    fn receiver(&self) -> &Self::Receiver;

    fn receiver_mut(&mut self) -> &mut Self::Receiver;

    /// The message that the receiver has.
    #[inline]
    fn take_message(&mut self) -> Message {
        self.receiver_mut().take_message()
    }

    /// Handles a frame, of the handshake or after it.
    fn frame(
        &mut self,
        now: Time,
        frame: <Self::Receiver as Receive>::Frame,
        session: &mut SessionState,
    ) -> Result<Meaning, Error>;

    /// Handles a message that came before the connection was ready.
    fn early_message(
        &mut self,
        now: Time,
        message: Message,
        session: &mut SessionState,
    ) -> Result<Meaning, Error>;

    /// The session that the client claims, while a decision about it is pending.
    fn claim(&self) -> Option<&Claim>;

    /// The connection carries the session that the client claims.
    fn admit(&mut self, session: &mut SessionState) -> Result<Meaning, Error>;

    /// The connection does not carry the session that the client claims.
    fn refuse(&mut self, refusal: Refusal, session: &SessionState);

    /// Asks the peer for a sign of life.
    fn ask_for_life(&mut self, now: Time);

    /// Answers a request for a sign of life.
    fn answer_life(&mut self, stamp: Utime);

    /// Is there something to send beside the messages of the session?
    fn has_output(&self) -> bool;

    /// Appends what the handshake sends to `out`.
    fn transmit_handshake(&mut self, out: &mut List, session: &mut SessionState);

    /// Appends control frames, acknowledgements and about `limit` bytes of messages to `out`.
    fn transmit(&mut self, out: &mut List, limit: usize, session: &mut SessionState);

    /// The connection is over: drops the handshake and whatever was not handed out yet.
    fn close(&mut self);
}
