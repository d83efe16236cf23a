//! The client's machine: connections, and requests that are in flight or waiting.

use super::config::{CONNECTIONS_MAX, Config, Endpoint};
use super::device::{NbdDevice, Opened, Shared};
use super::error::ClientError;
use super::link::{Link, Phase};
use super::negotiation::Negotiation;
use super::pending::{Next, Pending, PendingWork};
use super::replies::Replied;
use crate::codec::TransmissionFlags;
use onego_block::{Backend, Device, Error, Outcome};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, LocalPort, Machine, Time};
use slab::Slab;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const OPENING: Duration = Duration::from_secs(30);

/// NBD client of one export, as a sans-I/O state machine. Drive it as [`Machine`] describes, alone or together with the
/// users of its [device](Self::device).
pub struct NbdClient {
    config: Config,
    endpoint: Endpoint,
    shared: Rc<Shared>,
    links: Vec<Link>,
    conns: ConnTable<usize>,
    pending: Slab<Pending>,
    waiting: VecDeque<usize>,
    actions: VecDeque<Action>,
    sequence: u32,
    attempts: u64,
    /// Time since which no connection has been ready.
    down_since: Option<Time>,
    last_error: Option<ClientError>,
    unflushed: Unflushed,
    is_leaving: bool,
}

/// Acknowledged changes that the server could lose.
#[derive(Debug, Default)]
struct Unflushed {
    /// Number of acknowledged changes without FUA.
    acknowledged: u64,
    /// Number of them that flushes have covered.
    flushed: u64,
    /// All connections were lost while some changes were not covered: these may be lost.
    doubtful: bool,
}

impl Unflushed {
    fn all_gone(&mut self) {
        self.doubtful |= self.acknowledged > self.flushed;
        self.flushed = self.acknowledged;
    }
}

impl fmt::Debug for NbdClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NbdClient")
            .field("export", &self.config.export)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl NbdClient {
    /// Creates a client that connects as soon as it is driven. Fails if the export's name is too long.
    pub fn new(config: Config, endpoint: Endpoint) -> Result<Self, ClientError> {
        if !config.has_name() {
            return Err(ClientError::Name);
        }
        let count = config.connections.clamp(1, CONNECTIONS_MAX);
        let mut links: Vec<Link> = (0..count).map(|_| Link::new(config.pool.clone())).collect();
        links[0].phase = Phase::Down { until: Time::default() };
        Ok(Self {
            config,
            endpoint,
            shared: Rc::default(),
            links,
            conns: ConnTable::default(),
            pending: Slab::new(),
            waiting: VecDeque::new(),
            actions: VecDeque::new(),
            sequence: 0,
            attempts: 0,
            down_since: None,
            last_error: None,
            unflushed: Unflushed::default(),
            is_leaving: false,
        })
    }

    /// Returns the export as a device. It is empty until the client [has opened it](Self::opened).
    pub fn device(&self) -> Rc<dyn Device> {
        Rc::new(NbdDevice { shared: Rc::clone(&self.shared) })
    }

    /// Waits until the export is open or the first connection has failed. The client does not retry the first
    /// connection.
    pub fn opened(&self) -> Opened {
        Opened { shared: Rc::clone(&self.shared) }
    }

    fn connect(&mut self, now: Time) {
        for index in 0..self.links.len() {
            let Phase::Down { until } = self.links[index].phase else { continue };
            if until > now || self.is_leaving {
                continue;
            }
            let conn = self.conns.insert(index);
            let action = match &mut self.endpoint {
                Endpoint::Tcp(addresses) => {
                    let turn = self.attempts.checked_rem(addresses.len() as u64).map(|turn| turn as usize);
                    let addr = turn.and_then(|turn| addresses.get(turn)).copied();
                    addr.map(|addr| Action::Connect { conn, addr, local: LocalPort::Any })
                        .ok_or_else(|| io::Error::other("the server has no address"))
                }
                Endpoint::Dial(dial) => dial().map(|socket| Action::Attach { conn, socket }),
            };
            self.attempts += 1;
            match action {
                Ok(action) => {
                    let link = &mut self.links[index];
                    link.conn = Some(conn);
                    link.phase = Phase::Connecting { until: now + OPENING };
                    self.actions.push_back(action);
                }
                Err(error) => {
                    self.conns.remove(conn);
                    self.lost(now, index, ClientError::Unreachable(Arc::new(error)));
                }
            }
        }
    }

    fn dispatch(&mut self, now: Time) {
        while let Some(request) = { self.shared.inbox.borrow_mut().pop_front() } {
            let key = self.pending.insert(Pending::new(request));
            self.waiting.push_back(key);
        }
        while !self.waiting.is_empty() {
            let ready = (0..self.links.len()).filter(|index| self.links[*index].has_room());
            let Some(index) = ready.min_by_key(|index| self.links[*index].in_flight) else { return };
            let Some(key) = self.waiting.pop_front() else { return };
            self.send(now, index, key);
        }
    }

    fn send(&mut self, now: Time, index: usize, key: usize) {
        let link = &mut self.links[index];
        let (Some(agreed), Some(pending)) = (link.agreed(), self.pending.get_mut(key)) else { return };
        if pending.is_flush() {
            if std::mem::take(&mut self.unflushed.doubtful) {
                return self.complete(now, key, Err(lost_writes()));
            }
            pending.covers = self.unflushed.acknowledged;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let cookie = u64::from(self.sequence) << 32 | key as u64;
        match pending.next(&agreed, cookie) {
            Next::Send(header, payload) => {
                pending.link = index;
                if link.in_flight == 0 {
                    link.heard = now;
                }
                link.in_flight += 1;
                link.send(&header, agreed.style, payload);
                self.announce(index);
            }
            Next::Complete(result) => self.complete(now, key, result),
        }
    }

    fn announce(&mut self, index: usize) {
        let link = &mut self.links[index];
        if let Some(conn) = link.conn
            && link.has_unsent()
            && !std::mem::replace(&mut link.is_announced, true)
        {
            self.actions.push_back(Action::Transmit { conn });
        }
    }

    fn complete(&mut self, now: Time, key: usize, result: Result<Outcome, Error>) {
        if let Some(pending) = self.pending.try_remove(key) {
            pending.complete(now, result);
        }
    }

    fn progress(&mut self, now: Time, index: usize) {
        self.links[index].heard = now;
        self.take_messages(now, index);
        if let Some(error) = self.links[index].failure() {
            self.give_up(now, index, error);
        }
        self.dispatch(now);
    }

    fn take_messages(&mut self, now: Time, index: usize) {
        if matches!(self.links[index].phase, Phase::Handshake { .. }) {
            match self.links[index].shake_hands() {
                Ok(true) => self.ready(now, index),
                Ok(false) => {}
                Err(error) => return self.give_up(now, index, error),
            }
            self.announce(index);
        }
        loop {
            match self.links[index].reply(&mut self.pending, &self.config.pool) {
                Ok(Some(replied)) => {
                    if let Err(error) = self.replied(now, index, replied) {
                        return self.give_up(now, index, error);
                    }
                }
                Ok(None) => return,
                Err(error) => return self.give_up(now, index, error),
            }
        }
    }

    /// Handles the end of a handshake: opens further connections if the server allows them.
    fn ready(&mut self, now: Time, index: usize) {
        let Some(agreed) = self.links[index].agreed() else { return };
        tracing::debug!(index, ?agreed, "connected to an export");
        (self.down_since, self.last_error) = (None, None);
        self.shared.set_agreed(&agreed);
        if agreed.info.flags.contains(TransmissionFlags::CAN_MULTI_CONN) {
            for link in &mut self.links {
                if matches!(link.phase, Phase::Unused) {
                    link.phase = Phase::Down { until: now };
                }
            }
        }
    }

    /// Handles the reply to a request, which is then complete or waits for its next step.
    fn replied(&mut self, now: Time, index: usize, Replied(key): Replied) -> Result<(), ClientError> {
        let link = &mut self.links[index];
        link.in_flight -= 1;
        let (Some(agreed), Some(pending)) = (link.agreed(), self.pending.get_mut(key)) else { return Ok(()) };
        link.backoff.reset();
        if pending.error.is_none() {
            if pending.is_flush() {
                self.unflushed.flushed = self.unflushed.flushed.max(pending.covers);
            } else if pending.leaves_unflushed() && agreed.info.flags.contains(TransmissionFlags::SEND_FLUSH)
            {
                self.unflushed.acknowledged += 1;
            }
        }
        if pending.step_done(&agreed) {
            // Resume it before newer requests.
            self.waiting.push_front(key);
            return Ok(());
        }
        let pending = self.pending.remove(key);
        finish(now, pending)
    }

    fn give_up(&mut self, now: Time, index: usize, error: ClientError) {
        tracing::info!(index, %error, "closing a connection to an NBD server");
        let Some(conn) = self.links[index].conn else { return };
        self.actions.push_back(Action::Close { conn });
        if self.links[index].is_out() {
            // The driver returns the buffer first; the connection ends then.
            self.links[index].phase = Phase::Closing;
            self.last_error = Some(error);
            return;
        }
        self.conns.remove(conn);
        self.lost(now, index, error);
    }

    /// Handles the end of a connection. Its requests are sent again on another one, before waiting ones.
    fn lost(&mut self, now: Time, index: usize, error: ClientError) {
        let link = &mut self.links[index];
        link.reset(&mut self.pending);
        let mut again: Vec<(u32, usize)> = Vec::new();
        for (key, pending) in &mut self.pending {
            if let Some(cookie) = pending.cookie.filter(|_| pending.link == index) {
                pending.restart();
                again.push(((cookie >> 32) as u32, key));
            }
        }
        let newest = self.sequence;
        again.sort_by_key(|(sequence, _)| newest.wrapping_sub(*sequence));
        again.into_iter().for_each(|(_, key)| self.waiting.push_front(key));
        let link = &mut self.links[index];
        if self.is_leaving {
            link.phase = Phase::Unused;
            return;
        }
        if !self.shared.is_opened() {
            link.phase = Phase::Unused;
            return self.shared.fail(error);
        }
        let random = splitmix(self.config.seed ^ self.attempts);
        link.phase = Phase::Down { until: now + link.backoff.fail(random) };
        self.last_error = Some(error);
        if !self.links.iter().any(|link| matches!(link.phase, Phase::Ready { .. })) {
            self.down_since.get_or_insert(now);
            self.unflushed.all_gone();
        }
    }

    fn patience_ends(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.down_since? + self.config.patience)
    }

    /// Returns the deadline of a connection without progress.
    fn silence_ends(&self, link: &Link) -> Option<Time> {
        match link.phase {
            Phase::Connecting { until } | Phase::Handshake { until, .. } | Phase::Down { until } => {
                Some(until)
            }
            Phase::Ready { .. } => (link.in_flight > 0).then_some(link.heard + self.config.patience),
            Phase::Unused | Phase::Closing | Phase::Leaving => None,
        }
    }

    /// Fails the requests that have waited too long for a connection.
    fn fail_overdue(&mut self, now: Time) {
        if self.patience_ends().is_none_or(|at| at > now) {
            return;
        }
        let why = self.last_error.as_ref().map_or_else(String::new, ClientError::to_string);
        for key in std::mem::take(&mut self.waiting) {
            // Recent requests fail, too: the server has been away for long enough.
            self.complete(now, key, Err(Error::TimedOut(why.clone())));
        }
    }

    fn shut_down(&mut self) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            match link.phase {
                Phase::Ready { .. } => link.leave(),
                Phase::Leaving | Phase::Unused => continue,
                _ => {
                    link.phase = Phase::Unused;
                    if let Some(conn) = link.conn.take() {
                        self.conns.remove(conn);
                        self.actions.push_back(Action::Close { conn });
                    }
                    continue;
                }
            }
            self.announce(index);
        }
    }
}

/// Completes a request after its reply. Fails if the reply is inconsistent.
fn finish(now: Time, mut pending: Pending) -> Result<(), ClientError> {
    if let Some(error) = pending.error.take() {
        pending.complete(now, Err(error));
        return Ok(());
    }
    let result = match std::mem::replace(&mut pending.work, PendingWork::Flush) {
        PendingWork::Read(reading) => reading.finish(),
        PendingWork::Status(extents) => Ok(Outcome::Status(extents)),
        PendingWork::Write(_) | PendingWork::Flush | PendingWork::Trim | PendingWork::Zero => {
            Ok(Outcome::Done)
        }
    };
    match result {
        Ok(outcome) => {
            pending.complete(now, Ok(outcome));
            Ok(())
        }
        Err(error) => {
            pending.complete(now, Err(Error::Failed(error.to_string())));
            Err(error)
        }
    }
}

fn lost_writes() -> Error {
    Error::Failed(
        "all connections to the server were lost before acknowledged writes were flushed: the writes may be \
         lost, so repeat them"
            .into(),
    )
}

fn splitmix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Backend for NbdClient {
    fn has_work(&self) -> bool {
        !self.shared.inbox.borrow().is_empty()
    }

    fn leave(&mut self, now: Time) {
        self.is_leaving = true;
        self.shared.close(now);
        self.shut_down();
    }

    fn is_leaving(&self) -> bool {
        self.links.iter().any(|link| matches!(link.phase, Phase::Leaving))
    }
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        self.shared.close(Time::default());
    }
}

impl Machine for NbdClient {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        self.connect(now);
        self.dispatch(now);
        self.actions.pop_front()
    }

    fn listening(&mut self, _now: Time, _listener: ListenerId, _result: io::Result<SocketAddr>) {}

    fn accepted(
        &mut self,
        _now: Time,
        _listener: ListenerId,
        _peer: SocketAddr,
        _local: SocketAddr,
    ) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, now: Time, conn: ConnId, _local: SocketAddr) {
        let Some(&index) = self.conns.get(conn) else { return };
        let tls = self.config.tls.clone();
        let negotiation = Negotiation::new(&self.config.export, tls.is_some());
        self.links[index].phase = Phase::Handshake { negotiation, tls, until: now + OPENING };
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        let Some(index) = self.conns.remove(conn) else { return };
        let error = match (cause, &self.links[index].phase) {
            (Disconnect::Failed(error), Phase::Connecting { .. }) => {
                ClientError::Unreachable(Arc::new(error))
            }
            (_, Phase::Handshake { tls: Some(_), .. }) => ClientError::TlsEnded,
            (Disconnect::Failed(error), _) => ClientError::Failed(Arc::new(error)),
            (Disconnect::Closed, _) => ClientError::Closed,
        };
        self.lost(now, index, error);
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        match self.conns.get(conn) {
            Some(&index) => self.links[index].landing(),
            None => Landing::default(),
        }
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let Some(&index) = self.conns.get(conn) else { return };
        self.links[index].landed(place, filled);
        if matches!(self.links[index].phase, Phase::Closing) {
            self.conns.remove(conn);
            let error = self.last_error.take().unwrap_or(ClientError::Closed);
            return self.lost(now, index, error);
        }
        self.progress(now, index);
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let Some(&index) = self.conns.get(conn) else { return };
        self.links[index].received(bytes);
        self.progress(now, index);
    }

    fn transmit(&mut self, _now: Time, conn: ConnId, out: &mut List, limit: usize) {
        let Some(&index) = self.conns.get(conn) else { return };
        let link = &mut self.links[index];
        link.is_announced = false;
        link.transmit(out, limit);
        if link.has_unsent() {
            return self.announce(index);
        }
        if matches!(link.phase, Phase::Leaving) {
            link.phase = Phase::Unused;
            link.conn = None;
            self.conns.remove(conn);
            self.actions.push_back(Action::Close { conn });
        }
    }

    fn deadline(&self) -> Option<Time> {
        let silence = self.links.iter().filter_map(|link| self.silence_ends(link)).min();
        silence.into_iter().chain(self.patience_ends()).min()
    }

    fn timeout(&mut self, now: Time) {
        self.fail_overdue(now);
        for index in 0..self.links.len() {
            let link = &self.links[index];
            let is_down = matches!(link.phase, Phase::Down { .. });
            if !is_down && self.silence_ends(link).is_some_and(|at| at <= now) {
                self.give_up(now, index, ClientError::Silent);
            }
        }
        self.connect(now);
    }
}
