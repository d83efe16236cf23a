//! One connection: handshake, messages, signs of life.

use super::frame::Framing;
use super::handshake::Handshake;
use super::receive::{Input, Receiver};
use super::send::Sender;
use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::error::Error;
use crate::event::Event;
use crate::liveness::{Due, Liveness};
use crate::message::{Message, Placer};
use crate::peer::{Peer, Target, Visitor};
use crate::policy::Policy;
use crate::state::SessionState;
use crate::tag::Tag;
use crate::types::Payload;
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Reader, Time, Unfinished};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// How far a connection is.
#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    Ready,
    Over,
}

/// One connection of the messenger, version 2.1. See [`Connection`](super::Connection) for what its methods do.
#[derive(Debug)]
pub(crate) struct Connection {
    config: Arc<Config>,
    phase: Phase,
    rx: Receiver,
    tx: Sender,
    events: VecDeque<Event>,
    /// What outlives the connection, if the policy has it so.
    session: SessionState,
    started: Time,
    liveness: Liveness,
    /// The stamp of the KEEPALIVE2 to answer. Of several only the last is answered: the answer to it says all that
    /// the others would, and nothing piles up for a peer that asks and does not read.
    answer: Option<Utime>,
    paused: bool,
}

impl Connection {
    /// The end of a client that has begun to open a connection to `target`.
    pub(crate) fn connect(now: Time, config: Arc<Config>, target: Target) -> Self {
        let session = SessionState::without(Policy::LOSSY_CLIENT, now.as_nanos());
        Self::resume(now, config, target, session)
    }

    /// The same for a connection that carries a session.
    pub(crate) fn resume(now: Time, config: Arc<Config>, target: Target, session: SessionState) -> Self {
        let handshake = Handshake::client(Arc::clone(&config), target);
        Self::new(now, config, handshake, session)
    }

    /// The end of a server on which `visitor` has opened a connection.
    pub(crate) fn accept(now: Time, config: Arc<Config>, visitor: Visitor, local: SocketAddr) -> Self {
        let session = SessionState::without(config.policy, now.as_nanos());
        let handshake = Handshake::server(Arc::clone(&config), visitor);
        let mut this = Self::new(now, config, handshake, session);
        this.opened(now, local);
        this
    }

    fn new(now: Time, config: Arc<Config>, handshake: Handshake, session: SessionState) -> Self {
        let framing = Framing::new(config.data_crc);
        Self {
            rx: Receiver::new(framing, config.limits),
            tx: Sender::new(framing, config.pool.clone()),
            liveness: Liveness::new(now, config.keepalive),
            config,
            phase: Phase::Handshake(Box::new(handshake)),
            events: VecDeque::new(),
            session,
            started: now,
            answer: None,
            paused: false,
        }
    }

    /// The client's connection is open. `local` is this side's address.
    pub(crate) fn opened(&mut self, now: Time, local: SocketAddr) {
        self.liveness.heard(now);
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.open(local, &mut self.tx);
        }
    }

    /// May messages flow?
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Where the next bytes go. A connection that is over or paused asks for none.
    pub(crate) fn landing(&mut self) -> Landing {
        if self.paused || matches!(self.phase, Phase::Over) { Landing::default() } else { self.rx.landing() }
    }

    /// The buffer handed out by [`landing`](Self::landing) comes back, its first `filled` bytes received.
    ///
    /// Is there an [event](Self::poll)?
    #[inline]
    pub(crate) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// What has begun to come in and is not whole, once the handshake is through.
    #[inline]
    pub(crate) fn unfinished(&self) -> Option<Unfinished> {
        if self.is_ready() { self.rx.unfinished() } else { None }
    }

    /// # Panics
    /// If it is not that buffer.
    pub(crate) fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        self.rx.landed(place, filled);
        if matches!(self.phase, Phase::Over) {
            self.give_back_place();
        } else if filled > 0 {
            self.liveness.heard(now);
        }
    }

    /// Bytes arrived in shared memory. `placer` is asked where the payloads go whose messages begin in them.
    pub(crate) fn received(&mut self, now: Time, mut bytes: Segment, placer: &mut dyn Placer) {
        self.liveness.heard(now);
        while !matches!(self.phase, Phase::Over) {
            let handled = match self.rx.next(&mut bytes, placer) {
                Ok(None) => break,
                Ok(Some(input)) => self.handle(now, input),
                Err(error) => Err(error),
            };
            if let Err(error) = handled {
                self.fail(error);
            }
        }
    }

    fn handle(&mut self, now: Time, input: Input) -> Result<(), Error> {
        match (input, &mut self.phase) {
            (Input::Message, _) => return self.message(),
            (Input::Aborted(header, place), _) => self.events.push_back(Event::Unplaced(header, place)),
            (Input::Banner(banner), Phase::Handshake(handshake)) => handshake.banner(banner, &mut self.tx)?,
            (Input::Control(tag, payload), Phase::Handshake(handshake)) => {
                let (rx, tx, session) = (&mut self.rx, &mut self.tx, &mut self.session);
                if let Some(peer) = handshake.frame(now, tag, &payload, rx, tx, session)? {
                    self.ready(peer);
                }
            }
            (Input::Control(tag, payload), _) => return self.control(tag, &payload),
            (Input::Banner(_), _) => {}
        }
        Ok(())
    }

    fn ready(&mut self, peer: Peer) {
        self.phase = Phase::Ready;
        self.session.was_open = true;
        self.rx.allow_messages();
        self.events.push_back(Event::Ready(peer));
    }

    fn message(&mut self) -> Result<(), Error> {
        if self.session.received(self.rx.header())? {
            self.events.push_back(Event::Message(self.rx.take_message()));
        } else {
            self.events.extend(Event::passed_over(self.rx.take_message()));
        }
        Ok(())
    }

    /// Lossy connections keep no message that was sent, so acknowledgements change nothing, and none are sent but for
    /// the number in every message's header; the kernel's client sends them all the same.
    fn control(&mut self, tag: Tag, payload: &[u8]) -> Result<(), Error> {
        let mut r = Reader::new(payload);
        match tag {
            Tag::Keepalive2 => self.answer = Some(Utime::decode(&mut r)?),
            Tag::Keepalive2Ack => drop(Utime::decode(&mut r)?),
            Tag::Ack => self.session.outbox.acknowledged(r.u64("ack seq")?)?,
            _ => return Err(Error::Unexpected { tag, state: "messages were being exchanged" }),
        }
        Ok(())
    }

    /// Queues a message. Its number and acknowledgement are given when it is sent; before the handshake is through it
    /// waits.
    ///
    /// # Panics
    /// When it is sent, if one of its parts has 4 GiB or more.
    pub(crate) fn send(&mut self, message: Message) {
        if self.takes_messages() {
            self.session.outbox.push(message);
        }
    }

    /// Queues the message with this content as part of transaction `tid`, like [`send`](Self::send) but cheaper than
    /// with [`Message::of`].
    pub(crate) fn send_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        if self.takes_messages() {
            self.session.outbox.push_payload(tid, payload);
        }
    }

    /// A session takes messages also when the connection that carries it is over.
    fn takes_messages(&self) -> bool {
        !matches!(self.phase, Phase::Over) || !self.session.policy.lossy
    }

    /// Bytes of messages that wait to be sent, without their headers.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.session.outbox.queued_bytes()
    }

    /// Messages that wait to be sent.
    pub(crate) fn queued_messages(&self) -> usize {
        self.session.outbox.queued_messages()
    }

    /// Is there something to send?
    pub(crate) fn has_output(&self) -> bool {
        let SessionState { ack_due, outbox, .. } = &self.session;
        let message = self.answer.is_some() || *ack_due || !outbox.is_empty();
        self.tx.has_control() || (self.is_ready() && message)
    }

    /// Appends what is to be sent to `out`, about `limit` bytes of it: whole frames, at least one if there is any.
    pub(crate) fn transmit(&mut self, out: &mut List, limit: usize) {
        if let Some(stamp) = self.answer.take() {
            self.tx.control(Tag::Keepalive2Ack, |w| stamp.encode(w));
        }
        if self.is_ready() {
            let SessionState { ack_due, outbox, in_seq, .. } = &mut self.session;
            if std::mem::take(ack_due) && outbox.is_empty() {
                // No message goes out that could say so.
                self.tx.control(Tag::Ack, |w| w.u64(*in_seq));
            }
            self.tx.transmit(out, limit.max(1), outbox, *in_seq);
        } else {
            self.tx.transmit_control(out);
        }
    }

    /// The next event, until there is none.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Stops asking for bytes, or goes on: back-pressure. What was received is still delivered. While it is paused a
    /// connection cannot tell whether the peer lives.
    pub(crate) fn pause(&mut self, now: Time, paused: bool) {
        if self.paused && !paused {
            self.liveness.heard(now);
        }
        self.paused = paused;
    }

    /// When [`timeout`](Self::timeout) wants to be called.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Handshake(_) => Some(self.started + self.config.handshake_timeout),
            Phase::Ready if !self.paused => self.liveness.deadline(),
            Phase::Ready | Phase::Over => None,
        }
    }

    /// Time has passed: asks for a sign of life, or gives up.
    pub(crate) fn timeout(&mut self, now: Time) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if !self.is_ready() {
            return self.fail(Error::HandshakeTimeout(self.config.handshake_timeout));
        }
        match self.liveness.timeout(now) {
            Some(Due::GiveUp(keepalive)) => self.fail(Error::Silent(keepalive.timeout)),
            Some(Due::Ask) => self.tx.control(Tag::Keepalive2, |w| Utime::from(now).encode(w)),
            None => {}
        }
    }

    /// The transport is gone: nothing more is sent or delivered but what was received, and a place that was given
    /// comes back. If it is out for a receive, it comes back after [`landed`](Self::landed).
    pub(crate) fn closed(&mut self) {
        self.phase = Phase::Over;
        self.tx.clear();
        self.answer = None;
        self.session.outbox.requeue();
        self.give_back_place();
    }

    /// What the client wants on a server that keeps sessions, while it is to be decided about.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.claimed(),
            Phase::Ready | Phase::Over => None,
        }
    }

    /// The connection carries that session.
    pub(crate) fn admit(&mut self, session: SessionState) {
        self.session.go_on_as(session);
        let Phase::Handshake(handshake) = &mut self.phase else { return };
        match handshake.admit(&mut self.tx, &mut self.session) {
            Ok(Some(peer)) => self.ready(peer),
            Ok(None) => {}
            Err(error) => self.fail(error),
        }
    }

    /// The connection does not carry the session that the client wants.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.refuse(refusal, &mut self.tx);
        }
    }

    pub(crate) fn session(&self) -> &SessionState {
        &self.session
    }

    /// What outlives a connection that is over.
    pub(crate) fn take_session(&mut self) -> SessionState {
        self.session.take()
    }

    fn fail(&mut self, error: Error) {
        self.closed();
        self.events.push_back(Event::Fault(error));
    }

    fn give_back_place(&mut self) {
        if let Some((header, place)) = self.rx.take_place() {
            self.events.push_back(Event::Unplaced(header, place));
        }
    }
}
