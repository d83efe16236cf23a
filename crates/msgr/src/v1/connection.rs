//! One connection: handshake, authentication, messages, signs of life.

use super::frame::Footers;
use super::handshake::{Agreed, Handshake, Next};
use super::mon_auth::{Answer, MonAuth};
use super::receive::{Input, Receiver};
use super::send::Sender;
use crate::auth::messages::{Auth, AuthReply};
use crate::claim::{Claim, Refusal};
use crate::config::Config;
use crate::error::Error;
use crate::event::Event;
use crate::liveness::{Due, Liveness};
use crate::message::{Message, Placer};
use crate::peer::{Peer, Target, Visitor};
use crate::policy::Policy;
use crate::state::SessionState;
use crate::types::Payload;
use crate::types::{EntityName, Utime};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time, Unfinished};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// How far a connection is.
#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    /// Monitor and client exchange messages of the authentication, and nothing else.
    Authentication(Box<Authentication>),
    Ready,
    Over,
}

/// The authentication between a monitor and its client.
#[derive(Debug)]
struct Authentication {
    exchange: MonAuth,
    peer: Peer,
    /// What is to be sent next.
    out: Option<Message>,
}

/// One connection of the messenger, version 1. See [`Connection`](super::super::Connection) for what its methods do.
#[derive(Debug)]
pub(crate) struct Connection {
    config: Arc<Config>,
    phase: Phase,
    rx: Receiver,
    tx: Sender,
    events: VecDeque<Event>,
    /// Is this the end that was connected to?
    server: bool,
    has_keepalive2: bool,
    /// What outlives the connection, if the policy has it so.
    session: SessionState,
    started: Time,
    liveness: Liveness,
    /// The stamp of the last KEEPALIVE2 that is not answered.
    answer: Option<Utime>,
    paused: bool,
}

impl Connection {
    pub(crate) fn connect(now: Time, config: Arc<Config>, target: Target) -> Self {
        let session = SessionState::without(Policy::LOSSY_CLIENT, u64::from(global_seq(now)));
        Self::resume(now, config, target, session)
    }

    pub(crate) fn resume(now: Time, config: Arc<Config>, target: Target, session: SessionState) -> Self {
        let handshake = Handshake::client(Arc::clone(&config), target);
        Self::new(now, config, handshake, session, false)
    }

    pub(crate) fn accept(now: Time, config: Arc<Config>, visitor: Visitor, local: SocketAddr) -> Self {
        let session = SessionState::without(config.policy, u64::from(global_seq(now)));
        let handshake = Handshake::server(Arc::clone(&config), visitor);
        let mut this = Self::new(now, config, handshake, session, true);
        this.opened(now, local);
        this
    }

    fn new(
        now: Time,
        config: Arc<Config>,
        handshake: Handshake,
        session: SessionState,
        server: bool,
    ) -> Self {
        Self {
            rx: Receiver::new(config.limits, config.data_crc),
            tx: Sender::new(config.entity, config.data_crc, config.pool.clone()),
            liveness: Liveness::new(now, config.keepalive),
            config,
            phase: Phase::Handshake(Box::new(handshake)),
            events: VecDeque::new(),
            server,
            has_keepalive2: false,
            session,
            started: now,
            answer: None,
            paused: false,
        }
    }

    pub(crate) fn opened(&mut self, now: Time, local: SocketAddr) {
        self.liveness.heard(now);
        if let Phase::Handshake(handshake) = &mut self.phase {
            let first = handshake.open(local, self.tx.control());
            self.rx.want_part(first);
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    pub(crate) fn landing(&mut self) -> Landing {
        if self.paused || matches!(self.phase, Phase::Over) { Landing::default() } else { self.rx.landing() }
    }

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

    pub(crate) fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        self.rx.landed(place, filled);
        if matches!(self.phase, Phase::Over) {
            self.give_back_place();
        } else if filled > 0 {
            self.liveness.heard(now);
        }
    }

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
            (Input::Message, _) => return self.message(now),
            (Input::Aborted(header, Some(place)), _) => self.events.push_back(Event::Unplaced(header, place)),
            (Input::Part(part), Phase::Handshake(handshake)) => {
                match handshake.part(now, &part, self.tx.control(), &mut self.session)? {
                    Next::Part(len) => self.rx.want_part(len),
                    Next::Agreed(agreed) => self.agreed(*agreed),
                    Next::Claim => {}
                }
            }
            (Input::Keepalive2(stamp), _) => self.answer = Some(stamp),
            (Input::Close, _) => return Err(Error::Closed),
            // Lossy connections keep no message that was sent, so acknowledgements change nothing.
            (Input::Ack(seq), _) => self.session.outbox.acknowledged(seq)?,
            (Input::Alive | Input::Aborted(_, None) | Input::Part(_), _) => {}
        }
        Ok(())
    }

    fn agreed(&mut self, agreed: Agreed) {
        let Agreed { peer, has_signatures, has_keepalive2, session_key, auth } = agreed;
        let footers = Footers { has_room: has_signatures };
        self.has_keepalive2 = has_keepalive2;
        self.rx.allow_messages(footers, session_key.clone());
        let mut source = self.config.entity;
        if source.num < 0 && peer.global_id > 0 {
            // The number of a client is its global id.
            source = EntityName { num: peer.global_id as i64, ..source };
        }
        self.tx.begin(source, footers, session_key);
        match auth {
            Some(mut exchange) => {
                let out = exchange.start();
                self.phase = Phase::Authentication(Box::new(Authentication { exchange, peer, out }));
            }
            None => self.ready(peer),
        }
    }

    fn ready(&mut self, peer: Peer) {
        self.phase = Phase::Ready;
        self.session.was_open = true;
        self.events.push_back(Event::Ready(peer));
    }

    fn message(&mut self, now: Time) -> Result<(), Error> {
        if !self.session.received(self.rx.header())? {
            self.events.extend(Event::passed_over(self.rx.take_message()));
            return Ok(());
        }
        let message = self.rx.take_message();
        if self.server && self.rx.peer_leaves_out_data_crc() {
            // A client that does not want checksums gets none.
            self.tx.leave_out_data_crc();
        }
        match &mut self.phase {
            Phase::Authentication(_) => self.auth_message(now, message),
            _ => {
                self.events.push_back(Event::Message(message));
                Ok(())
            }
        }
    }

    fn auth_message(&mut self, now: Time, mut message: Message) -> Result<(), Error> {
        let Phase::Authentication(auth) = &mut self.phase else { return Ok(()) };
        let expected = if self.server { Auth::KIND } else { AuthReply::KIND };
        if message.header.kind != expected {
            // A monitor may tell of its map first. It tells again when it is asked.
            tracing::debug!(kind = message.header.kind, "a message before the authentication is passed over");
            return Ok(());
        }
        let Answer { message, done } = auth.exchange.answer(now, &mut message, &mut auth.peer)?;
        auth.out = message.or(auth.out.take());
        if done {
            let (peer, out) = (auth.peer.clone(), auth.out.take());
            if let Some(out) = out {
                self.session.outbox.push_first(out);
            }
            self.ready(peer);
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, message: Message) {
        if self.takes_messages() {
            self.session.outbox.push(message);
        }
    }

    pub(crate) fn send_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        if self.takes_messages() {
            self.session.outbox.push_payload(tid, payload);
        }
    }

    /// A session takes messages also when the connection that carries it is over.
    fn takes_messages(&self) -> bool {
        !matches!(self.phase, Phase::Over) || !self.session.policy.lossy
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.session.outbox.queued_bytes()
    }

    pub(crate) fn queued_messages(&self) -> usize {
        self.session.outbox.queued_messages()
    }

    pub(crate) fn has_output(&self) -> bool {
        self.tx.has_control()
            || match &self.phase {
                Phase::Handshake(_) | Phase::Over => false,
                Phase::Authentication(auth) => auth.out.is_some() || self.answer.is_some(),
                Phase::Ready => {
                    self.answer.is_some() || self.session.ack_due || !self.session.outbox.is_empty()
                }
            }
    }

    pub(crate) fn transmit(&mut self, out: &mut List, limit: usize) {
        if let Some(stamp) = self.answer.take() {
            self.tx.keepalive_ack(stamp);
        }
        if self.is_ready() && std::mem::take(&mut self.session.ack_due) {
            self.tx.ack(self.session.in_seq);
        }
        match &mut self.phase {
            Phase::Ready => self.tx.transmit(out, limit.max(1), &mut self.session.outbox),
            Phase::Authentication(auth) => {
                self.tx.transmit_control(out, auth.out.take(), &mut self.session.outbox);
            }
            Phase::Handshake(_) | Phase::Over => {
                self.tx.transmit_control(out, None, &mut self.session.outbox);
            }
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn pause(&mut self, now: Time, paused: bool) {
        if self.paused && !paused {
            self.liveness.heard(now);
        }
        self.paused = paused;
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Handshake(_) | Phase::Authentication(_) => {
                Some(self.started + self.config.handshake_timeout)
            }
            Phase::Ready if !self.paused => self.liveness.deadline(),
            Phase::Ready | Phase::Over => None,
        }
    }

    pub(crate) fn timeout(&mut self, now: Time) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if !self.is_ready() {
            return self.fail(Error::HandshakeTimeout(self.config.handshake_timeout));
        }
        match self.liveness.timeout(now) {
            Some(Due::GiveUp(keepalive)) => self.fail(Error::Silent(keepalive.timeout)),
            Some(Due::Ask) => self.tx.keepalive(self.has_keepalive2.then(|| Utime::from(now))),
            None => {}
        }
    }

    pub(crate) fn closed(&mut self) {
        self.phase = Phase::Over;
        self.tx.clear();
        self.session.outbox.requeue();
        self.answer = None;
        self.give_back_place();
    }

    pub(crate) fn claim(&self) -> Option<&Claim> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.claimed(),
            Phase::Authentication(_) | Phase::Ready | Phase::Over => None,
        }
    }

    pub(crate) fn admit(&mut self, session: SessionState) {
        self.session.go_on_as(session);
        let Phase::Handshake(handshake) = &mut self.phase else { return };
        match handshake.admit(self.tx.control(), &mut self.session) {
            Next::Part(len) => self.rx.want_part(len),
            Next::Agreed(agreed) => self.agreed(*agreed),
            Next::Claim => {}
        }
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            let len = handshake.refuse(refusal, self.tx.control(), &self.session);
            self.rx.want_part(len);
        }
    }

    pub(crate) fn session(&self) -> &SessionState {
        &self.session
    }

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

/// Orders the connections of a process: the time in units of about a millisecond.
pub(crate) fn global_seq(now: Time) -> u32 {
    (now.as_nanos() >> 20) as u32
}
