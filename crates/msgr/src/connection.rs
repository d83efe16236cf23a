//! One connection of either protocol version: handshake, messages, keepalives.

use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::error::Error;
use crate::event::Event;
use crate::liveness::{Due, Liveness};
use crate::message::{Message, NoPlacer, Placer};
use crate::peer::{Peer, Target, Visitor};
use crate::policy::Policy;
use crate::protocol::{FrameEffect, Input, Protocol, Receive as _};
use crate::state::{SessionState, global_seq};
use crate::types::addr::AddrVec;
use crate::types::{Payload, Utime};
use crate::v1::Version1;
use crate::v2::Version2;
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time, Unfinished};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// One end of a messenger connection without I/O, in version 2.1 or 1.
///
/// It has the shape of a [`Machine`](onego_wire::Machine) with one connection, and is meant to be part of one.
/// Connections are lossy: when one breaks, its queue is lost and the owner resends on another. A connection that
/// carries a [`Session`](crate::Session) loses nothing.
///
/// - Bytes enter through [`landed`](Self::landed) and [`received`](Self::received), as [`landing`](Self::landing)
///   requests.
/// - Messages leave through [`send`](Self::send) and [`transmit`](Self::transmit).
/// - After each of these calls and after [`timeout`](Self::timeout), check [`poll`](Self::poll) for events,
///   [`has_output`](Self::has_output) for output and [`deadline`](Self::deadline) for the next timeout.
#[derive(Debug)]
pub struct Connection {
    version: Version,
    link: Link,
}

#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "both are large, and a box would cost every call an indirection"
)]
enum Version {
    One(Version1),
    Two(Version2),
}

/// Dispatches to the negotiated version: a branch instead of a virtual call on the hot path.
macro_rules! dispatch {
    ($version:expr, $protocol:ident => $what:expr) => {
        match $version {
            Version::One($protocol) => $what,
            Version::Two($protocol) => $what,
        }
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Ready,
    Over,
}

/// State common to both versions.
#[derive(Debug)]
struct Link {
    config: Arc<Config>,
    phase: Phase,
    events: VecDeque<Event>,
    /// Survives the connection if the policy keeps sessions.
    session: SessionState,
    started: Time,
    liveness: Liveness,
    /// Stamp of the latest unanswered keepalive. One answer serves several requests, so a peer that sends keepalives
    /// without reading the answers cannot make them pile up.
    answer: Option<Utime>,
    paused: bool,
    /// Message bytes delivered as events since the event queue was last empty.
    queued: usize,
    /// Bytes received once `queued` exceeded `AT_A_TIME`, and the arrival time of the last.
    rest: VecDeque<Segment>,
    rest_since: Time,
}

/// Queued message bytes above which decompression pauses: a few KiB may expand to hundreds of MiB.
const AT_A_TIME: usize = 16 << 20;

impl Connection {
    /// Creates the client side of a connection to `target`; the address determines the protocol version.
    pub fn connect(now: Time, config: Arc<Config>, target: Target) -> Self {
        let session = SessionState::without(Policy::LOSSY_CLIENT, global_seq(target.is_legacy(), now));
        Self::resume(now, config, target, session)
    }

    pub(crate) fn resume(now: Time, config: Arc<Config>, target: Target, session: SessionState) -> Self {
        let version = if target.is_legacy() {
            Version::One(Version1::client(&config, target))
        } else {
            Version::Two(Version2::client(&config, target))
        };
        Self { version, link: Link::new(now, config, session) }
    }

    /// Creates the server side of a connection opened by `visitor`; the local address determines the protocol version.
    pub fn accept(now: Time, config: Arc<Config>, visitor: Visitor, local: SocketAddr) -> Self {
        let legacy = config.addrs.legacy().and_then(|addr| addr.sock);
        let is_legacy = legacy.is_some_and(|legacy| legacy.port() == local.port());
        let session = SessionState::without(config.policy, global_seq(is_legacy, now));
        let version = if is_legacy {
            Version::One(Version1::server(&config, visitor))
        } else {
            Version::Two(Version2::server(&config, visitor))
        };
        let mut this = Self { version, link: Link::new(now, config, session) };
        this.opened(now, local);
        this
    }

    /// Notifies the client side that the transport is open. `local` is this side's address.
    pub fn opened(&mut self, now: Time, local: SocketAddr) {
        self.link.liveness.heard(now);
        if self.link.phase == Phase::Handshake {
            dispatch!(&mut self.version, it => it.open(local));
        }
    }

    /// Returns whether the handshake is complete, so that messages can be exchanged.
    pub fn is_ready(&self) -> bool {
        self.link.is_ready()
    }

    /// Returns where to receive the next bytes. A closed or paused connection requests none.
    pub fn landing(&mut self) -> Landing {
        if self.link.paused || self.link.phase == Phase::Over || !self.link.rest.is_empty() {
            return Landing::default();
        }
        dispatch!(&mut self.version, it => it.receiver_mut().landing())
    }

    /// Takes back the buffer handed out by [`landing`](Self::landing), with its first `filled` bytes received.
    ///
    /// # Panics
    /// If `place` is not that buffer.
    pub fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        dispatch!(&mut self.version, it => {
            it.receiver_mut().landed(place, filled);
            if self.link.phase == Phase::Over {
                self.link.give_back_place(it);
            } else if filled > 0 {
                self.link.liveness.heard(now);
            }
        });
    }

    /// Processes bytes received into shared memory. `placer` chooses the buffers for payloads whose messages begin in
    /// them.
    pub fn received(&mut self, now: Time, bytes: Segment, placer: &mut dyn Placer) {
        dispatch!(&mut self.version, it => self.link.received(it, now, bytes, placer));
    }

    /// Returns the partly received message, if any. The handshake does not count: it has its own deadline.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        if self.is_ready() { dispatch!(&self.version, it => it.receiver().unfinished()) } else { None }
    }

    /// Queues a message. It waits until the handshake is complete; its sequence number and acknowledgement are set when
    /// it is transmitted.
    ///
    /// # Panics
    /// When the message is transmitted, if one of its parts has 4 GiB or more.
    pub fn send(&mut self, message: Message) {
        if self.link.takes_messages() {
            self.link.session.outbox.push(message);
        }
    }

    /// Queues a message with content `payload` as part of transaction `tid`. Like [`send`](Self::send), but cheaper
    /// than building the message with [`Message::of`].
    #[inline]
    pub fn send_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        if self.link.takes_messages() {
            self.link.session.outbox.push_payload(tid, payload);
        }
    }

    /// Returns the number of queued message bytes, without headers.
    pub fn queued_bytes(&self) -> usize {
        self.link.session.outbox.queued_bytes()
    }

    /// Returns the number of queued messages.
    pub fn queued_messages(&self) -> usize {
        self.link.session.outbox.queued_messages()
    }

    /// Returns whether [`transmit`](Self::transmit) has output.
    pub fn has_output(&self) -> bool {
        let Link { answer, session, .. } = &self.link;
        let of_session = session.ack_due || !session.outbox.is_empty();
        dispatch!(&self.version, it => it.has_output()) || answer.is_some() || (self.is_ready() && of_session)
    }

    /// Appends about `limit` bytes of output to `out`: whole frames, at least one if any is queued.
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        let Link { phase, answer, session, .. } = &mut self.link;
        dispatch!(&mut self.version, it => {
            if let Some(stamp) = answer.take() {
                it.answer_keepalive(stamp);
            }
            if *phase == Phase::Ready {
                it.transmit(out, limit.max(1), session);
            } else {
                it.transmit_handshake(out, session);
            }
        });
    }

    /// Returns the next event.
    pub fn poll(&mut self) -> Option<Event> {
        if self.link.events.is_empty() && !self.link.rest.is_empty() {
            dispatch!(&mut self.version, it => self.link.go_on(it));
        }
        let event = self.link.events.pop_front();
        if self.link.events.is_empty() {
            self.link.queued = 0;
        }
        event
    }

    /// Returns whether an event is pending.
    #[inline]
    pub fn has_event(&self) -> bool {
        !self.link.events.is_empty() || !self.link.rest.is_empty()
    }

    /// Returns the number of pending events.
    #[inline]
    pub fn events(&self) -> usize {
        self.link.events.len()
    }

    /// Applies or releases back-pressure: while paused, the connection requests no bytes and cannot detect a dead peer.
    /// Bytes already received are still delivered.
    pub fn pause(&mut self, now: Time, paused: bool) {
        if self.link.paused && !paused {
            self.link.liveness.heard(now);
        }
        self.link.paused = paused;
    }

    /// Returns when to call [`timeout`](Self::timeout).
    pub fn deadline(&self) -> Option<Time> {
        match self.link.phase {
            Phase::Handshake => Some(self.link.started + self.link.config.handshake_timeout),
            Phase::Ready if !self.link.paused => self.link.liveness.deadline(),
            Phase::Ready | Phase::Over => None,
        }
    }

    /// Handles an expired deadline: sends a keepalive or fails the connection.
    pub fn timeout(&mut self, now: Time) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        dispatch!(&mut self.version, it => self.link.timeout(it, now));
    }

    /// Closes the connection after the transport is gone. Messages already received are still delivered, and the buffer
    /// of a partly received payload is returned; if a receive holds it, after [`landed`](Self::landed).
    pub fn closed(&mut self) {
        dispatch!(&mut self.version, it => self.link.close(it));
    }

    /// Returns the addresses of a client that claims a session, on a server whose policy keeps sessions. The connection
    /// waits until [`Session::accept`](crate::Session::accept) of that session has decided.
    pub fn claimed_by(&self) -> Option<&AddrVec> {
        self.claim().map(|claim| claim.request.addrs())
    }

    pub(crate) fn claim(&self) -> Option<&Claim> {
        dispatch!(&self.version, it => it.claim())
    }

    pub(crate) fn admit(&mut self, session: SessionState) {
        self.link.session.replace_with(session);
        if self.link.phase == Phase::Handshake {
            dispatch!(&mut self.version, it => self.link.admit(it));
        }
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if self.link.phase == Phase::Handshake {
            dispatch!(&mut self.version, it => it.refuse(refusal, &self.link.session));
        }
    }

    pub(crate) fn session(&self) -> &SessionState {
        &self.link.session
    }

    pub(crate) fn take_session(&mut self) -> SessionState {
        self.link.session.take()
    }
}

impl Link {
    fn new(now: Time, config: Arc<Config>, session: SessionState) -> Self {
        Self {
            phase: Phase::Handshake,
            events: VecDeque::new(),
            session,
            started: now,
            liveness: Liveness::new(now, config.keepalive),
            config,
            answer: None,
            paused: false,
            queued: 0,
            rest: VecDeque::new(),
            rest_since: now,
        }
    }

    fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// A session queues messages even after its connection closes.
    fn takes_messages(&self) -> bool {
        self.phase != Phase::Over || !self.session.policy.lossy
    }

    fn received<P: Protocol>(
        &mut self,
        protocol: &mut P,
        now: Time,
        mut bytes: Segment,
        placer: &mut dyn Placer,
    ) {
        self.liveness.heard(now);
        if !self.rest.is_empty() {
            self.rest.push_back(bytes);
            self.rest_since = now;
            return;
        }
        while self.phase != Phase::Over {
            if self.queued > AT_A_TIME && !bytes.is_empty() {
                self.rest.push_back(bytes);
                self.rest_since = now;
                return;
            }
            let handled = match protocol.receiver_mut().next(&mut bytes, placer) {
                Ok(None) => break,
                Ok(Some(Input::Message)) => self.message(protocol, now),
                Ok(Some(Input::Aborted(header, place))) => {
                    self.events.push_back(Event::Unplaced(header, place));
                    Ok(())
                }
                Ok(Some(Input::Frame(frame))) => {
                    let effect = protocol.frame(now, frame, &mut self.session);
                    effect.and_then(|effect| self.act(effect))
                }
                Err(error) => Err(error),
            };
            if let Err(error) = handled {
                self.fail(protocol, error);
            }
        }
    }

    /// Continues with the bytes held back in `rest`.
    #[cold]
    fn go_on<P: Protocol>(&mut self, protocol: &mut P) {
        self.queued = 0;
        let (mut rest, now) = (std::mem::take(&mut self.rest), self.rest_since);
        while self.queued <= AT_A_TIME
            && let Some(bytes) = rest.pop_front()
        {
            self.received(protocol, now, bytes, &mut NoPlacer);
        }
        if self.phase != Phase::Over {
            self.rest.append(&mut rest);
        }
    }

    fn message<P: Protocol>(&mut self, protocol: &mut P, now: Time) -> Result<(), Error> {
        if !self.session.received(protocol.receiver().header())? {
            self.events.extend(Event::duplicate(protocol.take_message()));
        } else if self.is_ready() {
            let message = protocol.take_message();
            self.queued += message.body_len() + message.placed.as_ref().map_or(0, |place| place.len());
            self.events.push_back(Event::Message(message));
        } else {
            let message = protocol.take_message();
            let effect = protocol.early_message(now, message, &mut self.session)?;
            self.act(effect)?;
        }
        Ok(())
    }

    fn act(&mut self, effect: FrameEffect) -> Result<(), Error> {
        match effect {
            FrameEffect::Nothing => {}
            FrameEffect::Ready(peer) => self.ready(peer),
            FrameEffect::Keepalive(stamp) => self.answer = Some(stamp),
            FrameEffect::Ack(seq) => self.session.outbox.acknowledged(seq)?,
        }
        Ok(())
    }

    fn ready(&mut self, peer: Peer) {
        self.phase = Phase::Ready;
        self.session.was_open = true;
        self.events.push_back(Event::Ready(peer));
    }

    fn admit<P: Protocol>(&mut self, protocol: &mut P) {
        let admitted = protocol.admit(&mut self.session).and_then(|effect| self.act(effect));
        if let Err(error) = admitted {
            self.fail(protocol, error);
        }
    }

    fn timeout<P: Protocol>(&mut self, protocol: &mut P, now: Time) {
        if !self.is_ready() {
            let error = Error::HandshakeTimeout(self.config.handshake_timeout);
            return self.fail(protocol, error);
        }
        match self.liveness.timeout(now) {
            Some(Due::GiveUp(keepalive)) => self.fail(protocol, Error::Silent(keepalive.timeout)),
            Some(Due::Ask) => protocol.request_keepalive(now),
            None => {}
        }
    }

    fn fail<P: Protocol>(&mut self, protocol: &mut P, error: Error) {
        self.close(protocol);
        self.events.push_back(Event::Fault(error));
    }

    fn close<P: Protocol>(&mut self, protocol: &mut P) {
        self.phase = Phase::Over;
        self.rest.clear();
        protocol.close();
        self.answer = None;
        self.session.outbox.requeue();
        self.give_back_place(protocol);
    }

    fn give_back_place<P: Protocol>(&mut self, protocol: &mut P) {
        if let Some((header, place)) = protocol.receiver_mut().take_place() {
            self.events.push_back(Event::Unplaced(header, place));
        }
    }
}
