//! One connection of either version of the protocol: handshake, messages, signs of life.

use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::dialect::{Dialect, Input, Meaning, Receive as _};
use crate::error::Error;
use crate::event::Event;
use crate::liveness::{Due, Liveness};
use crate::message::{Message, NoPlacer, Placer};
use crate::peer::{Peer, Target, Visitor};
use crate::policy::Policy;
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

/// One connection of the messenger without I/O: the client's or the server's end, in version 2.1 or 1.
///
/// It has the shape of a [`Machine`](onego_wire::Machine) with one connection, and is meant to be part of one.
/// Connections are lossy: what was queued when one breaks is gone, and the owner sends it again on another. A
/// connection that carries a [`Session`](crate::Session) loses nothing.
///
/// - Bytes go in by [`landed`](Self::landed) and [`received`](Self::received), as [`landing`](Self::landing) asks.
/// - Messages go out by [`send`](Self::send) and [`transmit`](Self::transmit).
/// - After each of these, and after [`timeout`](Self::timeout), look for events with [`poll`](Self::poll), for output
///   with [`has_output`](Self::has_output), and for the time with [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Connection {
    version: Version,
    link: Link,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "both are large, and a box would cost every call a detour")]
enum Version {
    One(Version1),
    Two(Version2),
}

/// Calls the version that the connection speaks: a branch, and no virtual call, on the hot path.
macro_rules! dispatch {
    ($version:expr, $dialect:ident => $what:expr) => {
        match $version {
            Version::One($dialect) => $what,
            Version::Two($dialect) => $what,
        }
    };
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Ready,
    Over,
}

/// What a connection has in both versions.
#[derive(Debug)]
struct Link {
    config: Arc<Config>,
    phase: Phase,
    events: VecDeque<Event>,
    /// What outlives the connection, if the policy keeps sessions.
    session: SessionState,
    started: Time,
    liveness: Liveness,
    /// The stamp of the last request for a sign of life that has no answer yet. One answer serves several requests, so
    /// nothing piles up for a peer that asks and does not read.
    answer: Option<Utime>,
    paused: bool,
    /// Bytes of messages that became events since there was none.
    queued: usize,
    /// Bytes received after as many messages as are decompressed at a time, and when the last came.
    rest: VecDeque<Segment>,
    rest_since: Time,
}

/// Bytes of messages that wait to be handled, from which on nothing more is decompressed: a few KiB may become hundreds of MiB.
const AT_A_TIME: usize = 16 << 20;

impl Connection {
    /// The end of a client that has begun to open a connection to `target`, in the version that is spoken at its
    /// address.
    pub fn connect(now: Time, config: Arc<Config>, target: Target) -> Self {
        let session = SessionState::without(Policy::LOSSY_CLIENT, global_seq(target.is_legacy(), now));
        Self::resume(now, config, target, session)
    }

    /// The end of a client that carries a session.
    pub(crate) fn resume(now: Time, config: Arc<Config>, target: Target, session: SessionState) -> Self {
        let version = if target.is_legacy() {
            Version::One(Version1::client(&config, target))
        } else {
            Version::Two(Version2::client(&config, target))
        };
        Self { version, link: Link::new(now, config, session) }
    }

    /// The end of a server on which `visitor` has opened a connection, in the version that is spoken at its own
    /// address `local`.
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

    /// The client's connection is open. `local` is this side's address.
    pub fn opened(&mut self, now: Time, local: SocketAddr) {
        self.link.liveness.heard(now);
        if self.link.phase == Phase::Handshake {
            dispatch!(&mut self.version, it => it.open(local));
        }
    }

    /// May messages flow?
    pub fn is_ready(&self) -> bool {
        self.link.is_ready()
    }

    /// Where the next bytes go. A connection that is over or paused asks for none.
    pub fn landing(&mut self) -> Landing {
        if self.link.paused || self.link.phase == Phase::Over || !self.link.rest.is_empty() {
            return Landing::default();
        }
        dispatch!(&mut self.version, it => it.receiver_mut().landing())
    }

    /// The buffer handed out by [`landing`](Self::landing) comes back, its first `filled` bytes received.
    ///
    /// # Panics
    /// If it is not that buffer.
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

    /// Bytes arrived in shared memory. `placer` is asked where the payloads go whose messages begin in them.
    pub fn received(&mut self, now: Time, bytes: Segment, placer: &mut dyn Placer) {
        dispatch!(&mut self.version, it => self.link.received(it, now, bytes, placer));
    }

    /// The message of which a part has come and a part has not. The handshake is none: it has a deadline of its own.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        if self.is_ready() { dispatch!(&self.version, it => it.receiver().unfinished()) } else { None }
    }

    /// Queues a message. Its number and acknowledgement are given when it is sent; before the handshake is complete
    /// it waits.
    ///
    /// # Panics
    /// When it is sent, if one of its parts has 4 GiB or more.
    pub fn send(&mut self, message: Message) {
        if self.link.takes_messages() {
            self.link.session.outbox.push(message);
        }
    }

    /// Queues the message with this content as part of transaction `tid`, like [`send`](Self::send) but cheaper than
    /// with [`Message::of`].
    #[inline]
    pub fn send_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        if self.link.takes_messages() {
            self.link.session.outbox.push_payload(tid, payload);
        }
    }

    /// Bytes of messages that wait to be sent, without their headers.
    pub fn queued_bytes(&self) -> usize {
        self.link.session.outbox.queued_bytes()
    }

    /// Messages that wait to be sent.
    pub fn queued_messages(&self) -> usize {
        self.link.session.outbox.queued_messages()
    }

    /// Is there something to send?
    pub fn has_output(&self) -> bool {
        let Link { answer, session, .. } = &self.link;
        let of_session = session.ack_due || !session.outbox.is_empty();
        dispatch!(&self.version, it => it.has_output()) || answer.is_some() || (self.is_ready() && of_session)
    }

    /// Appends what is to be sent to `out`, about `limit` bytes of it: whole frames, at least one if there is any.
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        let Link { phase, answer, session, .. } = &mut self.link;
        dispatch!(&mut self.version, it => {
            if let Some(stamp) = answer.take() {
                it.answer_life(stamp);
            }
            if *phase == Phase::Ready {
                it.transmit(out, limit.max(1), session);
            } else {
                it.transmit_handshake(out, session);
            }
        });
    }

    /// The next event, until there is none.
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

    /// Is there an event?
    #[inline]
    pub fn has_event(&self) -> bool {
        !self.link.events.is_empty() || !self.link.rest.is_empty()
    }

    /// Events that were not asked for yet.
    #[inline]
    pub fn events(&self) -> usize {
        self.link.events.len()
    }

    /// Stops asking for bytes, or goes on: back-pressure. What was received is still delivered. While it is paused a
    /// connection cannot tell whether the peer lives.
    pub fn pause(&mut self, now: Time, paused: bool) {
        if self.link.paused && !paused {
            self.link.liveness.heard(now);
        }
        self.link.paused = paused;
    }

    /// When [`timeout`](Self::timeout) wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        match self.link.phase {
            Phase::Handshake => Some(self.link.started + self.link.config.handshake_timeout),
            Phase::Ready if !self.link.paused => self.link.liveness.deadline(),
            Phase::Ready | Phase::Over => None,
        }
    }

    /// Time has passed: asks for a sign of life, or gives up.
    pub fn timeout(&mut self, now: Time) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        dispatch!(&mut self.version, it => self.link.timeout(it, now));
    }

    /// The transport is gone: nothing more is sent or delivered but what was received, and the buffer that was given
    /// for a payload comes back. If a receive has it, it comes back after [`landed`](Self::landed).
    pub fn closed(&mut self) {
        dispatch!(&mut self.version, it => self.link.close(it));
    }

    /// The addresses of the client that claims a session, on a server whose policy keeps sessions. The connection
    /// waits until [`Session::accept`](crate::Session::accept) of that session has decided about it.
    pub fn claimed_by(&self) -> Option<&AddrVec> {
        self.claim().map(|claim| claim.wish.addrs())
    }

    /// What the client claims, while the decision about it is pending.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        dispatch!(&self.version, it => it.claim())
    }

    /// The connection carries that session.
    pub(crate) fn admit(&mut self, session: SessionState) {
        self.link.session.go_on_as(session);
        if self.link.phase == Phase::Handshake {
            dispatch!(&mut self.version, it => self.link.admit(it));
        }
    }

    /// The connection does not carry the session that the client claims.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if self.link.phase == Phase::Handshake {
            dispatch!(&mut self.version, it => it.refuse(refusal, &self.link.session));
        }
    }

    pub(crate) fn session(&self) -> &SessionState {
        &self.link.session
    }

    /// What outlives a connection that is over.
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

    /// A session takes messages also when the connection that carries it is over.
    fn takes_messages(&self) -> bool {
        self.phase != Phase::Over || !self.session.policy.lossy
    }

    fn received<D: Dialect>(
        &mut self,
        dialect: &mut D,
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
            let handled = match dialect.receiver_mut().next(&mut bytes, placer) {
                Ok(None) => break,
                Ok(Some(Input::Message)) => self.message(dialect, now),
                Ok(Some(Input::Aborted(header, place))) => {
                    self.events.push_back(Event::Unplaced(header, place));
                    Ok(())
                }
                Ok(Some(Input::Frame(frame))) => {
                    let meaning = dialect.frame(now, frame, &mut self.session);
                    meaning.and_then(|meaning| self.act(meaning))
                }
                Err(error) => Err(error),
            };
            if let Err(error) = handled {
                self.fail(dialect, error);
            }
        }
    }

    /// Goes on with what was received after many messages.
    #[cold]
    fn go_on<D: Dialect>(&mut self, dialect: &mut D) {
        self.queued = 0;
        let (mut rest, now) = (std::mem::take(&mut self.rest), self.rest_since);
        while self.queued <= AT_A_TIME
            && let Some(bytes) = rest.pop_front()
        {
            self.received(dialect, now, bytes, &mut NoPlacer);
        }
        if self.phase != Phase::Over {
            self.rest.append(&mut rest);
        }
    }

    fn message<D: Dialect>(&mut self, dialect: &mut D, now: Time) -> Result<(), Error> {
        if !self.session.received(dialect.receiver().header())? {
            self.events.extend(Event::passed_over(dialect.take_message()));
        } else if self.is_ready() {
            let message = dialect.take_message();
            self.queued += message.body_len() + message.placed.as_ref().map_or(0, |place| place.len());
            self.events.push_back(Event::Message(message));
        } else {
            let message = dialect.take_message();
            let meaning = dialect.early_message(now, message, &mut self.session)?;
            self.act(meaning)?;
        }
        Ok(())
    }

    fn act(&mut self, meaning: Meaning) -> Result<(), Error> {
        match meaning {
            Meaning::Nothing => {}
            Meaning::Ready(peer) => self.ready(peer),
            Meaning::Keepalive(stamp) => self.answer = Some(stamp),
            Meaning::Ack(seq) => self.session.outbox.acknowledged(seq)?,
        }
        Ok(())
    }

    fn ready(&mut self, peer: Peer) {
        self.phase = Phase::Ready;
        self.session.was_open = true;
        self.events.push_back(Event::Ready(peer));
    }

    fn admit<D: Dialect>(&mut self, dialect: &mut D) {
        let admitted = dialect.admit(&mut self.session).and_then(|meaning| self.act(meaning));
        if let Err(error) = admitted {
            self.fail(dialect, error);
        }
    }

    fn timeout<D: Dialect>(&mut self, dialect: &mut D, now: Time) {
        if !self.is_ready() {
            let error = Error::HandshakeTimeout(self.config.handshake_timeout);
            return self.fail(dialect, error);
        }
        match self.liveness.timeout(now) {
            Some(Due::GiveUp(keepalive)) => self.fail(dialect, Error::Silent(keepalive.timeout)),
            Some(Due::Ask) => dialect.ask_for_life(now),
            None => {}
        }
    }

    fn fail<D: Dialect>(&mut self, dialect: &mut D, error: Error) {
        self.close(dialect);
        self.events.push_back(Event::Fault(error));
    }

    fn close<D: Dialect>(&mut self, dialect: &mut D) {
        self.phase = Phase::Over;
        self.rest.clear();
        dialect.close();
        self.answer = None;
        self.session.outbox.requeue();
        self.give_back_place(dialect);
    }

    fn give_back_place<D: Dialect>(&mut self, dialect: &mut D) {
        if let Some((header, place)) = dialect.receiver_mut().take_place() {
            self.events.push_back(Event::Unplaced(header, place));
        }
    }
}
