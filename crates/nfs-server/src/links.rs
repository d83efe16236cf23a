//! The connections of a server, and the bounds on what they make it hold.
//!
//! A client can make a server hold memory in two ways: by messages that it begins to send, and by replies that it does
//! not take. What is bounded for each connection is here; what all hold together is counted by [`Admission`].

use super::duplicate_request_cache::RequestKey;
use super::job::{Done, Job};
use super::program::{Outcome, Peer, Program};
use super::transport::{Error, FRONT_MAX, Rdma, RdmaConfig, Transport};
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nfs::rpc::{Record, Split, Splitter};
use onego_nfs::xdr::Reader;
use onego_rdma::{Asked, Listener};
use onego_service::admission::{Account, Admission, Bounds};
use onego_service::extents::COPY_MAX;
use onego_wire::{Action, ConnId, ConnTable, Landing, Time};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

mod limits;

/// What all connections hold together.
const BOUNDS: Bounds = Bounds {
    connections: 4096,
    slots: 64 * RECORD_MAX,
    // What has a place of its own.
    slot_from: COPY_MAX + 1,
    unfinished: 128 << 20,
    replies: 256 << 20,
    reply_max: RECORD_MAX,
};

/// Most bytes of receives that are posted for clients over RDMA, each of which has as many as it has credits.
const RDMA_RECEIVES_MAX: usize = 256 << 20;

/// Most bytes of a message: a WRITE, and generously what is before its data.
const RECORD_MAX: usize = super::procedures::limits::TRANSFER_MAX + FRONT_MAX;

/// Bytes of replies that may wait on one connection before no more of its calls are carried out, and of those with the
/// replies to calls that are carried out elsewhere.
const UNSENT_MAX: usize = 8 << 20;
const REPLIES_MAX: usize = 32 << 20;

/// Replies that are sent before further calls of their connection are carried out: the client has them to deal with while the
/// next calls are done here, and neither sleeps.
const BATCH: usize = 16;

/// Calls of one connection that may be carried out elsewhere at a time, and of all.
const JOBS_MAX: usize = 64;
const JOBS_MAX_ALL: usize = 256;

/// One connection.
struct Link {
    transport: Transport,
    peer: Peer,
    account: Account,
    /// The driver knows that there is something to send.
    announced: bool,
    /// Buffers that are out for a receive, and bytes that came in those that are back.
    landing: usize,
    landed: usize,
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
    /// Most bytes of their replies.
    to_come: usize,
    /// Bytes of replies that the driver has taken, and has not sent as far as is known.
    given: usize,
}

impl Link {
    /// May more be read from it?
    fn reads(&self) -> bool {
        !self.stopped && !self.more
    }
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
    again: FxHashMap<RequestKey, (ConnId, u32)>,
    /// How many connections are stopped.
    stopped: usize,
    admission: Admission,
    /// How many connections are over RDMA, and how many there may be.
    by_rdma: usize,
    by_rdma_max: usize,
    /// No transport wants to be told the time before: a lower bound.
    wakeup: Option<Time>,
}

/// Gives payloads memory: fresh one if they have to wait for a slot (see [`Admission`]).
struct Placing<'a> {
    program: &'a mut Program,
    admission: &'a Admission,
    account: &'a Account,
}

impl Splitter for Placing<'_> {
    fn split(&mut self, start: &[u8]) -> Split {
        self.program.split(start)
    }

    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut> {
        if payload < BOUNDS.slot_from || self.account.has_slot() || self.admission.has_room(payload) {
            return self.program.place(front, payload);
        }
        Some(SegmentMut::sparse(payload))
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
            stopped: 0,
            admission: Admission::new(BOUNDS),
            by_rdma: 0,
            by_rdma_max: rdma.map_or(0, |rdma| RDMA_RECEIVES_MAX / rdma.receives_len()).max(1),
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
        let before = self.admission.has_room_for_replies();
        let Some(link) = self.get(conn) else { return };
        let (looked, stopped) = (link.transport.ready(), link.stopped);
        if let Err(error) = looked {
            return self.give_up(now, conn, &error);
        }
        self.count_replies(now, conn);
        if !stopped {
            // How much the device has moved is not known.
            self.work(now, conn, 0, program);
        }
        self.sent(now, conn, before, program);
    }

    fn insert(&mut self, now: Time, peer: SocketAddr, transport: Transport) -> ConnId {
        let is_rdma = transport.is_rdma();
        self.by_rdma += usize::from(is_rdma);
        self.table.insert(Link {
            account: self.admission.open(now, peer.ip(), !is_rdma),
            transport,
            peer: Peer::new(peer),
            announced: false,
            landing: 0,
            landed: 0,
            over: false,
            answered: 0,
            more: false,
            stopped: false,
            jobs: 0,
            to_come: 0,
            given: 0,
        })
    }

    /// The connection, unless it is over.
    fn get(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.table.get_mut(conn).filter(|link| !link.over)
    }

    /// Where the next bytes of a connection go.
    pub(super) fn landing(&mut self, conn: ConnId) -> Landing {
        let link =
            self.table.get_mut(conn).filter(|link| !link.over && link.reads() && link.account.is_read());
        let Some(link) = link else { return Landing::default() };
        let mut landing = link.transport.landing();
        landing.ahead = landing.ahead.min(self.admission.ahead(&link.account));
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
        link.landed += filled;
        link.transport.landed(now, place, filled);
        if link.landing > 0 {
            return;
        }
        let came = std::mem::take(&mut link.landed);
        if link.over {
            self.table.remove(conn);
        } else {
            self.work(now, conn, came, program);
        }
    }

    /// Bytes came in.
    pub(super) fn received(&mut self, now: Time, conn: ConnId, bytes: Segment, program: &mut Program) {
        let Some(link) = self.get(conn) else { return };
        let came = bytes.len();
        link.transport.received(now, bytes);
        self.work(now, conn, came, program);
    }

    /// `came` bytes have come. Carries out the calls that are here, until there are replies enough for a send, or too many
    /// wait.
    fn work(&mut self, now: Time, conn: ConnId, came: usize, program: &mut Program) {
        let mut whole = false;
        loop {
            let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
            if link.answered >= BATCH && link.transport.is_on_stream() {
                link.more = true;
                break;
            }
            let unsent = link.transport.unsent();
            let full = unsent >= UNSENT_MAX || unsent + link.to_come >= REPLIES_MAX;
            let busy = link.jobs >= JOBS_MAX || (link.jobs > 0 && self.working >= JOBS_MAX_ALL);
            if full || busy || !self.admission.may_answer(&link.account) {
                self.stop(now, conn);
                break;
            }
            let mut placing = Placing { program, admission: &self.admission, account: &link.account };
            let record = match link.transport.next(&mut placing) {
                Ok(record) => record,
                Err(error) => return self.give_up(now, conn, &error),
            };
            let Some(record) = record else { break };
            whole = true;
            self.answer(now, conn, record, program);
        }
        self.count_replies(now, conn);
        self.progress(now, conn, came, whole);
        self.announce(conn);
    }

    /// Answers a call, or has it carried out elsewhere.
    fn answer(&mut self, now: Time, conn: ConnId, record: Record, program: &mut Program) {
        let Some(link) = self.table.get_mut(conn) else { return };
        let xid = Reader::new(&record.front).u32("xid").unwrap_or_default();
        match program.answer(now, &mut link.peer, record) {
            Outcome::Reply(front, payload) => {
                link.answered += 1;
                link.transport.send(front, payload);
            }
            Outcome::InProgress(key) => return self.wait_for(key, conn, xid),
            Outcome::Job(mut job) => {
                job.conn = Some(conn);
                link.jobs += 1;
                link.to_come += job.reply_max();
                self.working += 1;
                self.jobs.push_back(*job);
            }
            Outcome::NoCall => {
                // Where the next message begins is known all the same.
                tracing::debug!(?conn, "a client sent what is no call");
                link.transport.forget(xid);
            }
        }
        self.count_replies(now, conn);
    }

    /// A call is in work that has come again. Whoever sends it again waits for the reply on this connection, and no longer
    /// on the one before. There are no more of them than calls in work.
    fn wait_for(&mut self, key: RequestKey, conn: ConnId, xid: u32) {
        if let Some((before, xid)) = self.again.insert(key, (conn, xid))
            && before != conn
            && let Some(link) = self.get(before)
        {
            link.transport.forget(xid);
        }
    }

    fn stop(&mut self, now: Time, conn: ConnId) {
        if let Some(link) = self.get(conn)
            && !link.stopped
        {
            link.stopped = true;
            link.transport.settle();
            self.stopped += 1;
            self.admission.watch(now);
        }
    }

    /// Counts again what waits to be sent.
    fn count_replies(&mut self, now: Time, conn: ConnId) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        let waiting = link.transport.unsent() + link.given;
        self.admission.count_replies(now, &mut link.account, waiting, link.to_come);
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
        let before = self.admission.has_room_for_replies();
        self.work_on(now, conn, program);
        let Some(link) = self.get(conn) else {
            // The driver asks once more, since it was told to close.
            if let Some(at) = self.last_words.iter().position(|(of, _)| *of == conn) {
                out.append(self.last_words.swap_remove(at).1);
            }
            return;
        };
        link.transport.transmit(out, limit);
        // The driver asks again when all of it is sent.
        link.given = out.len();
        link.answered = 0;
        // Only a driver that has got as much as it asked for asks again of itself.
        link.announced = link.transport.has_output();
        self.announce(conn);
        self.count_replies(now, conn);
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
            self.work(now, conn, 0, program);
            if self.get(conn).is_some_and(|link| !link.more) {
                self.actions.push_back(Action::Resume { conn });
            }
        }
    }

    /// Something of the connection was sent; there was `room` for replies before.
    fn sent(&mut self, now: Time, conn: ConnId, room: bool, program: &mut Program) {
        if self.stopped == 0 {
            return;
        }
        self.resume(now, conn, program);
        if !room && self.admission.has_room_for_replies() {
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
            link.to_come -= done.reply_max;
            self.count_replies(now, conn);
        }
        for conn in [Some(conn), again.filter(|again| *again != conn)].into_iter().flatten() {
            if let Some(link) = self.get(conn) {
                link.transport.send(done.front.as_slice(), done.payload.clone());
                let failed = link.transport.has_failed();
                self.count_replies(now, conn);
                self.announce(conn);
                if failed {
                    // Nothing will come that would make somebody look.
                    self.work(now, conn, 0, program);
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
        let working = self.working;
        let Some(link) = self.table.get_mut(conn).filter(|link| link.stopped && !link.over) else { return };
        let unsent = link.transport.unsent();
        let full = unsent > UNSENT_MAX / 2 || unsent + link.to_come > REPLIES_MAX / 2;
        let busy = link.jobs > 0 && (link.jobs > JOBS_MAX / 2 || working > JOBS_MAX_ALL / 2);
        if full || busy || !self.admission.may_answer(&link.account) {
            return;
        }
        link.stopped = false;
        self.stopped -= 1;
        // Calls are here that were not carried out.
        self.work(now, conn, 0, program);
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
        self.by_rdma -= usize::from(link.transport.is_rdma());
        self.admission.close(conn, &mut link.account);
        if link.landing == 0 {
            self.table.remove(conn);
        }
        self.admit(now);
    }
}
