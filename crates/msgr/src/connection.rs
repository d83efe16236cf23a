//! A connection of either version of the protocol.

use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::event::Event;
use crate::message::{Message, Placer};
use crate::peer::{Target, Visitor};
use crate::state::SessionState;
use crate::types::Payload;
use crate::types::addr::{AddrKind, AddrVec};
use crate::v1::Connection as Msgr1;
use crate::v2::Connection as Msgr2;
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time, Unfinished};
use std::net::SocketAddr;
use std::sync::Arc;

/// One connection of the messenger without I/O: the client's or the server's end, in version 2.1 or 1.
///
/// It has the shape of a [`Machine`](onego_wire::Machine) with one connection, which it is meant to be a part of.
/// Connections are lossy: what was queued when one breaks is gone, and it is the owner's to send it again on another.
/// Nothing is lost on those that carry a [`Session`](crate::Session).
///
/// - Bytes go in by [`landed`](Self::landed) and [`received`](Self::received), as [`landing`](Self::landing) asks.
/// - Messages go out by [`send`](Self::send) and [`transmit`](Self::transmit).
/// - After each of these, and after [`timeout`](Self::timeout), look for events with [`poll`](Self::poll), for output
///   with [`has_output`](Self::has_output), and for the time with [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Connection(Version);

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "both are large, and a box would cost every call a detour")]
enum Version {
    One(Msgr1),
    Two(Msgr2),
}

/// Does the same with either version.
macro_rules! either {
    ($connection:expr, $inner:ident => $what:expr) => {
        match $connection {
            Version::One($inner) => $what,
            Version::Two($inner) => $what,
        }
    };
}

impl Connection {
    /// The end of a client that has begun to open a connection to `target`, in the version that is spoken at its
    /// address.
    pub fn connect(now: Time, config: Arc<Config>, target: Target) -> Self {
        Self(match target.addr.kind {
            AddrKind::Legacy => Version::One(Msgr1::connect(now, config, target)),
            _ => Version::Two(Msgr2::connect(now, config, target)),
        })
    }

    /// The end of a server on which `visitor` has opened a connection, in the version that is spoken at its own
    /// address `local`.
    pub fn accept(now: Time, config: Arc<Config>, visitor: Visitor, local: SocketAddr) -> Self {
        let legacy = config.addrs.legacy().and_then(|addr| addr.sock);
        Self(if legacy.is_some_and(|legacy| legacy.port() == local.port()) {
            Version::One(Msgr1::accept(now, config, visitor, local))
        } else {
            Version::Two(Msgr2::accept(now, config, visitor, local))
        })
    }

    /// The end of a client that carries a session.
    pub(crate) fn resume(now: Time, config: Arc<Config>, target: Target, session: SessionState) -> Self {
        Self(match target.addr.kind {
            AddrKind::Legacy => Version::One(Msgr1::resume(now, config, target, session)),
            _ => Version::Two(Msgr2::resume(now, config, target, session)),
        })
    }

    /// The addresses of the client that claims a session, on a server whose policy is not a lossy one. The connection
    /// waits until [`Session::accept`](crate::Session::accept) of that session has decided about it.
    pub fn claimed_by(&self) -> Option<&AddrVec> {
        self.claim().map(|claim| claim.wish.addrs())
    }

    pub(crate) fn claim(&self) -> Option<&Claim> {
        either!(&self.0, it => it.claim())
    }

    pub(crate) fn admit(&mut self, session: SessionState) {
        either!(&mut self.0, it => it.admit(session));
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        either!(&mut self.0, it => it.refuse(refusal));
    }

    pub(crate) fn session(&self) -> &SessionState {
        either!(&self.0, it => it.session())
    }

    pub(crate) fn take_session(&mut self) -> SessionState {
        either!(&mut self.0, it => it.take_session())
    }

    /// The client's connection is open. `local` is this side's address.
    pub fn opened(&mut self, now: Time, local: SocketAddr) {
        either!(&mut self.0, it => it.opened(now, local));
    }

    /// May messages flow?
    pub fn is_ready(&self) -> bool {
        either!(&self.0, it => it.is_ready())
    }

    /// Where the next bytes go. A connection that is over or paused asks for none.
    pub fn landing(&mut self) -> Landing {
        either!(&mut self.0, it => it.landing())
    }

    /// The buffer handed out by [`landing`](Self::landing) comes back, its first `filled` bytes received.
    ///
    /// # Panics
    /// If it is not that buffer.
    pub fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        either!(&mut self.0, it => it.landed(now, place, filled));
    }

    /// The message of which a part has come and a part has not. The handshake is none: it has a deadline of its own.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        either!(&self.0, it => it.unfinished())
    }

    /// Bytes arrived in shared memory. `placer` is asked where the payloads go whose messages begin in them.
    pub fn received(&mut self, now: Time, bytes: Segment, placer: &mut dyn Placer) {
        either!(&mut self.0, it => it.received(now, bytes, placer));
    }

    /// Queues a message. Its number and acknowledgement are given when it is sent; before the handshake is through it
    /// waits.
    ///
    /// # Panics
    /// When it is sent, if one of its parts has 4 GiB or more.
    pub fn send(&mut self, message: Message) {
        either!(&mut self.0, it => it.send(message));
    }

    /// Queues the message with this content as part of transaction `tid`, like [`send`](Self::send) but cheaper than
    /// with [`Message::of`].
    #[inline]
    pub fn send_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        either!(&mut self.0, it => it.send_payload(tid, payload));
    }

    /// Bytes of messages that wait to be sent, without their headers.
    pub fn queued_bytes(&self) -> usize {
        either!(&self.0, it => it.queued_bytes())
    }

    /// Messages that wait to be sent.
    pub fn queued_messages(&self) -> usize {
        either!(&self.0, it => it.queued_messages())
    }

    /// Is there something to send?
    pub fn has_output(&self) -> bool {
        either!(&self.0, it => it.has_output())
    }

    /// Appends what is to be sent to `out`, about `limit` bytes of it: whole frames, at least one if there is any.
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        either!(&mut self.0, it => it.transmit(out, limit));
    }

    /// The next event, until there is none.
    pub fn poll(&mut self) -> Option<Event> {
        either!(&mut self.0, it => it.poll())
    }

    /// Is there an event?
    #[inline]
    pub fn has_event(&self) -> bool {
        either!(&self.0, it => it.has_event())
    }

    /// Stops asking for bytes, or goes on: back-pressure. What was received is still delivered. While it is paused a
    /// connection cannot tell whether the peer lives.
    pub fn pause(&mut self, now: Time, paused: bool) {
        either!(&mut self.0, it => it.pause(now, paused));
    }

    /// When [`timeout`](Self::timeout) wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        either!(&self.0, it => it.deadline())
    }

    /// Time has passed: asks for a sign of life, or gives up.
    pub fn timeout(&mut self, now: Time) {
        either!(&mut self.0, it => it.timeout(now));
    }

    /// The transport is gone: nothing more is sent or delivered but what was received, and a place that was given
    /// comes back. If it is out for a receive, it comes back after [`landed`](Self::landed).
    pub fn closed(&mut self) {
        either!(&mut self.0, it => it.closed());
    }
}
