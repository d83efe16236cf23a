//! The connections of a server, and the bounds on what they make it hold.
//!
//! A client can make a server hold memory in two ways: by payloads that it begins to send, and by replies that it does
//! not take. Both are bounded for each connection and over all of them; at the bound a connection is not read from until
//! there is room again.

use super::job::{Done, Job};
use super::program::{Outcome, Peer, Program};
use super::replies::Key;
use super::transport::{Error, Rdma, RdmaConfig, Transport};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nfs::rpc::{Split, Splitter};
use onego_nfs::xdr::Reader;
use onego_rdma::{Asked, Listener};
use onego_wire::{Action, ConnId, ConnTable, Landing, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 4096;

/// Most bytes of a message: a WRITE, and generously what is before its data.
const RECORD_MAX: usize = super::memory::TRANSFER_MAX + (64 << 10);

/// Payloads that may come in at a time, one of each connection: so many times [`RECORD_MAX`] at most.
const PAYLOADS_MAX: usize = 64;

/// Time after which a payload is given up of which nothing more comes. Its place among those that may come in must not be
/// taken for ever when a client vanishes; none that is alive is silent for so long in the middle of a message.
const PAYLOAD_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of replies that may wait on one connection before no more of its calls are carried out, and on all.
const UNSENT_MAX: usize = 8 << 20;
const UNSENT_MAX_ALL: usize = 256 << 20;

/// Replies that are sent before further calls of their connection are carried out: the client has them to deal with while the
/// next calls are done here, and neither sleeps.
const BATCH: usize = 16;

/// Calls of one connection that may be carried out elsewhere at a time, and of all.
const JOBS_MAX: usize = 64;
const JOBS_MAX_ALL: usize = 256;

/// How a payload stands that is coming in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// There is none.
    None,
    /// It comes in.
    Coming,
    /// It waits until fewer others come in.
    Held,
}

/// One connection.
struct Link {
    transport: Transport,
    peer: Peer,
    /// The driver knows that there is something to send.
    announced: bool,
    /// Buffers that are out for a receive.
    landing: usize,
    /// The connection is over; it is kept only until the buffer that is out comes back.
    over: bool,
    /// Replies since the driver took some last.
    answered: usize,
    /// There may be calls that wait until the replies before them are sent. No more are read until then.
    more: bool,
    /// No calls are taken because of the replies that wait, or of the calls that are carried out elsewhere.
    stopped: bool,
    /// Calls that are carried out elsewhere.
    jobs: usize,
    /// Bytes of replies that wait, as they were counted last.
    unsent: usize,
    payload: Payload,
    /// When something came last, or when there was room for it again.
    heard: Time,
}

/// The connections.
pub(super) struct Links {
    table: ConnTable<Link>,
    actions: VecDeque<Action>,
    /// What is still to be said on connections that are closed: why.
    last_words: Vec<(ConnId, List)>,
    pool: Pool,
    /// For connections over RDMA, if there may be some.
    rdma: Option<RdmaConfig>,
    /// Where clients come by devices, if they may, and its name for the driver.
    device: Option<(ConnId, Box<dyn Listener>)>,
    /// Calls to be carried out elsewhere.
    jobs: VecDeque<Job>,
    /// How many there are, with those that are under way.
    working: usize,
    /// Calls in work that have come again, and where they came last, as which number: their clients have new connections.
    again: FxHashMap<Key, (ConnId, u32)>,
    unsent: usize,
    /// How many connections are stopped.
    stopped: usize,
    /// Payloads that come in.
    coming: usize,
    /// Connections whose payloads are held: first come, first served.
    held: VecDeque<ConnId>,
    /// No payload is to be given up before: a lower bound.
    wakeup: Option<Time>,
}

/// Notes that a payload was given a place.
struct Placing<'a> {
    program: &'a mut Program,
    placed: bool,
}

impl Splitter for Placing<'_> {
    fn split(&mut self, start: &[u8]) -> Split {
        self.program.split(start)
    }

    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut> {
        let place = self.program.place(front, payload);
        self.placed |= place.is_some();
        place
    }
}

impl Links {
    pub(super) fn new(pool: Pool, rdma: Option<&Rdma>) -> Self {
        Self {
            table: ConnTable::default(),
            actions: VecDeque::new(),
            last_words: Vec::new(),
            rdma: rdma.map(|rdma| RdmaConfig::new(rdma, RECORD_MAX, &pool)),
            device: None,
            pool,
            jobs: VecDeque::new(),
            working: 0,
            again: FxHashMap::default(),
            unsent: 0,
            stopped: 0,
            coming: 0,
            held: VecDeque::new(),
            wakeup: None,
        }
    }

    pub(super) fn push_action(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(super) fn next_action(&mut self) -> Option<Action> {
        if self.actions.is_empty() {
            // All connections that were to be closed are closed.
            self.last_words.clear();
        }
        self.actions.pop_front()
    }

    pub(super) fn is_full(&self) -> bool {
        self.table.len() >= MAX_CONNECTIONS
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        self.table.len()
    }

    /// Adds a connection of TCP.
    pub(super) fn add(&mut self, now: Time, peer: SocketAddr) -> ConnId {
        self.insert(now, peer, Transport::stream(RECORD_MAX, &self.pool))
    }

    /// Adds one over RDMA. `None`: there may be none.
    pub(super) fn add_rdma(&mut self, now: Time, peer: SocketAddr) -> Option<ConnId> {
        let transport = Transport::rdma(now, self.rdma.as_ref()?);
        transport.deadline().into_iter().for_each(|deadline| self.wake_by(deadline));
        Some(self.insert(now, peer, transport))
    }

    /// Clients come by devices, too.
    pub(super) fn listen_by_device(&mut self, listener: Box<dyn Listener>) -> io::Result<()> {
        let descriptor = listener.descriptor().try_clone_to_owned()?;
        let conn = self.table.reserve();
        self.actions.push_back(Action::Watch { conn, descriptor });
        self.device = Some((conn, listener));
        Ok(())
    }

    /// Is that the name of where clients come by devices?
    pub(super) fn is_device(&self, conn: ConnId) -> bool {
        self.device.as_ref().is_some_and(|(name, _)| *name == conn)
    }

    /// The next client that asks to connect by a device.
    pub(super) fn next_asked(&mut self) -> Option<Asked> {
        let (_, listener) = self.device.as_mut()?;
        loop {
            match listener.accept()? {
                Ok(asked) => return Some(asked),
                Err(error) => tracing::info!(%error, "a client cannot connect by a device"),
            }
        }
    }

    /// Lets a client in that asks to connect by a device.
    pub(super) fn add_asked(&mut self, now: Time, asked: Asked) {
        let (Some(config), peer) = (&self.rdma, asked.client) else { return };
        match Transport::device(asked, config) {
            Ok((transport, descriptor)) => {
                let conn = self.insert(now, peer, transport);
                self.actions.push_back(Action::Watch { conn, descriptor });
            }
            Err(error) => tracing::info!(%peer, %error, "a client is not let in"),
        }
    }

    /// Something has happened on a connection by a device.
    pub(super) fn ready(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        let before = self.unsent;
        let Some(link) = self.get(conn) else { return };
        link.heard = now;
        let (looked, stopped) = (link.transport.ready(), link.stopped);
        if let Err(error) = looked {
            return self.give_up(now, conn, &error);
        }
        self.count_unsent(conn);
        if !stopped {
            self.work(now, conn, program);
        }
        self.sent(now, conn, before, program);
    }

    fn insert(&mut self, now: Time, peer: SocketAddr, transport: Transport) -> ConnId {
        self.table.insert(Link {
            transport,
            peer: Peer::new(peer),
            announced: false,
            landing: 0,
            over: false,
            answered: 0,
            more: false,
            stopped: false,
            jobs: 0,
            unsent: 0,
            payload: Payload::None,
            heard: now,
        })
    }

    /// The connection, unless it is over.
    fn get(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.table.get_mut(conn).filter(|link| !link.over)
    }

    /// Where the next bytes of a connection go.
    pub(super) fn landing(&mut self, conn: ConnId) -> Landing {
        let link = self.get(conn).filter(|link| !link.stopped && !link.more && link.payload != Payload::Held);
        let Some(link) = link else { return Landing::default() };
        let landing = link.transport.landing();
        link.landing = landing.places();
        landing
    }

    /// A buffer that was out comes back.
    pub(super) fn landed(
        &mut self,
        now: Time,
        conn: ConnId,
        place: SegmentMut,
        filled: usize,
        program: &mut Program,
    ) {
        let Some(link) = self.table.get_mut(conn) else { return };
        link.landing -= 1;
        link.heard = now;
        link.transport.landed(now, place, filled);
        if link.landing > 0 {
            return;
        }
        if link.over {
            self.table.remove(conn);
        } else {
            self.work(now, conn, program);
        }
    }

    /// Bytes came in.
    pub(super) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment, program: &mut Program) {
        let Some(link) = self.get(conn) else { return };
        link.heard = now;
        link.transport.received(now, bytes);
        self.work(now, conn, program);
    }

    /// Carries out the calls that are here, until there are replies enough for a send, or too many wait.
    fn work(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        loop {
            let (all, working) = (self.unsent, self.working);
            let Some(link) = self.get(conn) else { return };
            if link.answered >= BATCH && link.transport.is_on_stream() {
                link.more = true;
                break;
            }
            let unsent = link.transport.unsent();
            let full = unsent >= UNSENT_MAX || (unsent > 0 && all - link.unsent + unsent >= UNSENT_MAX_ALL);
            let busy = link.jobs >= JOBS_MAX || (link.jobs > 0 && working >= JOBS_MAX_ALL);
            if full || busy {
                self.stop(conn);
                break;
            }
            let mut placing = Placing { program, placed: false };
            let record = match link.transport.next(&mut placing) {
                Ok(record) => record,
                Err(error) => return self.give_up(now, conn, &error),
            };
            let (placed, here) = (placing.placed, record.is_some());
            let was = link.payload != Payload::None;
            let comes = link.transport.is_payload_coming(was, placed, here);
            if let Some(record) = record {
                let xid = Reader::new(&record.front).u32("xid").unwrap_or_default();
                match program.answer(now, &mut link.peer, record) {
                    Outcome::Reply(front, payload) => {
                        link.answered += 1;
                        link.transport.send(front, payload);
                    }
                    Outcome::InWork(key) => self.wait_for(key, conn, xid),
                    Outcome::Job(mut job) => {
                        job.conn = Some(conn);
                        link.jobs += 1;
                        self.working += 1;
                        self.jobs.push_back(*job);
                    }
                    Outcome::NoCall => {
                        // Where the next message begins is known all the same.
                        tracing::debug!(?conn, "a client sent what is no call");
                        link.transport.forget(xid);
                    }
                }
            }
            self.follow_payload(now, conn, comes);
            if !here {
                break;
            }
        }
        self.count_unsent(conn);
        self.announce(conn);
    }

    /// A call is in work that has come again. Whoever sends it again waits for the reply on this connection, and no longer
    /// on the one before. There are no more of them than calls in work.
    fn wait_for(&mut self, key: Key, conn: ConnId, xid: u32) {
        if let Some((before, xid)) = self.again.insert(key, (conn, xid))
            && before != conn
            && let Some(link) = self.get(before)
        {
            link.transport.forget(xid);
        }
    }

    /// Payloads may have begun to come in (`comes`), and may be here.
    fn follow_payload(&mut self, now: Time, conn: ConnId, comes: bool) {
        let Some(link) = self.table.get_mut(conn) else { return };
        if comes && link.payload == Payload::None {
            if self.coming < PAYLOADS_MAX {
                link.payload = Payload::Coming;
                self.coming += 1;
            } else {
                // What is here of it lies in its place already; the rest waits in the network.
                link.payload = Payload::Held;
                self.held.push_back(conn);
            }
            self.wake_by(now + PAYLOAD_PATIENCE);
        } else if !comes {
            self.end_payload(now, conn);
        }
    }

    /// A payload is here, or given up: another one may come in.
    fn end_payload(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn) else { return };
        let was = std::mem::replace(&mut link.payload, Payload::None);
        if was != Payload::Coming {
            return;
        }
        self.coming -= 1;
        while self.coming < PAYLOADS_MAX
            && let Some(next) = self.held.pop_front()
        {
            let Some(link) = self.table.get_mut(next) else { continue };
            if link.payload == Payload::Held && !link.over {
                link.payload = Payload::Coming;
                link.heard = now;
                self.coming += 1;
                self.actions.push_back(Action::Resume { conn: next });
            }
        }
    }

    fn stop(&mut self, conn: ConnId) {
        if let Some(link) = self.get(conn)
            && !link.stopped
        {
            link.stopped = true;
            self.stopped += 1;
        }
    }

    /// Counts again what waits to be sent.
    fn count_unsent(&mut self, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn) else { return };
        let unsent = if link.over { 0 } else { link.transport.unsent() };
        self.unsent = self.unsent - link.unsent + unsent;
        link.unsent = unsent;
    }

    /// Tells the driver, once, if the connection has something to send.
    fn announce(&mut self, conn: ConnId) {
        if let Some(link) = self.get(conn)
            && (link.more || link.transport.has_output())
            && !link.announced
        {
            link.announced = true;
            self.actions.push_back(Action::Transmit { conn });
        }
    }

    /// What a connection has to send.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        conn: ConnId,
        out: &mut List,
        limit: usize,
        program: &mut Program,
    ) {
        let before = self.unsent;
        self.work_on(now, conn, program);
        let Some(link) = self.get(conn) else {
            // The driver asks once more, since it was told to close.
            if let Some(at) = self.last_words.iter().position(|(of, _)| *of == conn) {
                out.append(self.last_words.swap_remove(at).1);
            }
            return;
        };
        link.transport.transmit(out, limit);
        link.answered = 0;
        // Only a driver that has got as much as it asked for asks again of itself.
        link.announced = link.transport.has_output();
        self.announce(conn);
        self.count_unsent(conn);
        self.sent(now, conn, before, program);
    }

    /// Carries out the calls that waited for replies to be sent, if these are, until there is something to send again. (Over
    /// RDMA a reply may have to wait for something that has yet to be received.)
    fn work_on(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        while let Some(link) = self.get(conn)
            && link.more
            && !link.transport.has_output()
        {
            (link.more, link.answered) = (false, 0);
            self.work(now, conn, program);
            if self.get(conn).is_some_and(|link| !link.more) {
                self.actions.push_back(Action::Resume { conn });
            }
        }
    }

    /// Something of the connection was sent; `before` that so many bytes waited on all.
    fn sent(&mut self, now: Time, conn: ConnId, before: usize, program: &mut Program) {
        if self.stopped == 0 {
            return;
        }
        self.resume(now, conn, program);
        const ROOM: usize = UNSENT_MAX_ALL / 2;
        if before > ROOM && self.unsent <= ROOM {
            self.resume_all(now, program);
        }
    }

    /// The next call to be carried out elsewhere.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    pub(super) fn has_job(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// A call has been carried out elsewhere.
    pub(super) fn done(&mut self, now: Time, mut done: Done, program: &mut Program) {
        program.done(&mut done);
        self.working -= 1;
        let Some(conn) = done.conn else { return };
        let again = done.key.and_then(|key| self.again.remove(&key)).map(|(conn, _)| conn);
        if let Some(link) = self.get(conn) {
            link.jobs -= 1;
        }
        for conn in [Some(conn), again.filter(|again| *again != conn)].into_iter().flatten() {
            if let Some(link) = self.get(conn) {
                link.transport.send(done.front.as_slice(), done.payload.clone());
                let failed = link.transport.has_failed();
                self.count_unsent(conn);
                self.announce(conn);
                if failed {
                    // Nothing will come that would make somebody look.
                    self.work(now, conn, program);
                }
            }
        }
        if self.stopped > 0 {
            self.resume(now, conn, program);
            if self.working == JOBS_MAX_ALL / 2 {
                self.resume_all(now, program);
            }
        }
    }

    /// Goes on with all connections that can go on.
    fn resume_all(&mut self, now: Time, program: &mut Program) {
        let stopped = self.table.iter().filter(|(_, link)| link.stopped && !link.over);
        let stopped: Vec<ConnId> = stopped.map(|(conn, _)| conn).collect();
        stopped.into_iter().for_each(|conn| self.resume(now, conn, program));
    }

    /// Goes on with a connection that was stopped, if half of what may wait is gone.
    fn resume(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        let (room, working) = (self.unsent <= UNSENT_MAX_ALL / 2, self.working);
        let Some(link) = self.get(conn).filter(|link| link.stopped) else { return };
        let full = link.unsent > 0 && (link.unsent > UNSENT_MAX / 2 || !room);
        let busy = link.jobs > 0 && (link.jobs > JOBS_MAX / 2 || working > JOBS_MAX_ALL / 2);
        if full || busy {
            return;
        }
        link.stopped = false;
        self.stopped -= 1;
        // Calls are here that were not carried out.
        self.work(now, conn, program);
        if self.get(conn).is_some_and(|link| !link.stopped) {
            self.actions.push_back(Action::Resume { conn });
        }
    }

    /// Closes a connection that cannot go on, and tells the client why.
    fn give_up(&mut self, now: Time, conn: ConnId, error: &Error) {
        let Some(link) = self.get(conn) else { return };
        match error.is_end() {
            true => tracing::debug!(?conn, "a client is gone"),
            false => tracing::info!(?conn, %error, "a client broke the protocol"),
        }
        let words = link.transport.last_words();
        self.last_words.extend(words.map(|words| (conn, words)));
        self.close(now, conn);
    }

    /// Closes a connection.
    fn close(&mut self, now: Time, conn: ConnId) {
        if self.get(conn).is_some() {
            self.actions.push_back(Action::Close { conn });
            self.end(now, conn);
        }
    }

    /// A connection is gone.
    pub(super) fn end(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        link.over = true;
        if std::mem::take(&mut link.stopped) {
            self.stopped -= 1;
        }
        let landing = link.landing;
        self.count_unsent(conn);
        self.end_payload(now, conn);
        if landing == 0 {
            self.table.remove(conn);
        }
    }

    fn wake_by(&mut self, deadline: Time) {
        self.wakeup = Some(self.wakeup.map_or(deadline, |wakeup| wakeup.min(deadline)));
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.wakeup
    }

    /// Gives up connections of whose payloads nothing more comes, and that do not come to be.
    pub(super) fn timeout(&mut self, now: Time, program: &mut Program) {
        if self.wakeup.is_none_or(|wakeup| now < wakeup) {
            return;
        }
        self.wakeup = None;
        let waits = |(conn, link): (ConnId, &Link)| Some((conn, link.transport.deadline()?));
        let waits: Vec<_> = self.table.iter().filter_map(waits).collect();
        for (conn, deadline) in waits {
            if deadline <= now {
                self.get(conn).into_iter().for_each(|link| link.transport.timeout(now));
                self.work(now, conn, program);
            } else {
                self.wake_by(deadline);
            }
        }
        let coming = self.table.iter().filter(|(_, link)| link.payload == Payload::Coming && !link.over);
        let ends: Vec<_> = coming.map(|(conn, link)| (conn, link.heard + PAYLOAD_PATIENCE)).collect();
        for (conn, end) in ends {
            if end <= now {
                tracing::info!(?conn, "a client has stopped in the middle of a message");
                self.close(now, conn);
            } else {
                self.wake_by(end);
            }
        }
        if !self.held.is_empty() {
            self.wake_by(now + PAYLOAD_PATIENCE);
        }
    }
}
