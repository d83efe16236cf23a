//! Stress test of every engine: tiny queues, thousands of connections, short sends, slow readers, resets and
//! cancellations.
//!
//! Checks every byte at both ends; that a send reports how much was sent and returns the rest; that each receive buffer
//! comes back once; that connections which are not broken on purpose end in good order, whatever happens to the others.
//! Returned memory is reused at once, so that wrong bytes reveal memory that was not free.
//!
//! All choices derive from a seed, which a failure prints: `ONEGO_SEED=N` repeats them (but not the kernel's). With
//! `ONEGO_TEST_LONG=1` there are more connections and several seeds.
use crate::engine::{Engine, Event, Received, RecvBufs, Sent};
use crate::epoll::Epoll;
use crate::ring::{Mode, RingSize, setup};
use crate::system::clock;
use crate::table::SocketId;
use crate::uepoll::Uepoll;
use crate::uring::Uring;
use crate::wait::Wait;
use crate::zero_copy::{self, Settings, Thresholds};
use onego_buf::{List, Pool, SegmentMut};
use onego_testkit::seeds::{Seeds, is_long};
use onego_wire::{Landing, LocalPort};
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Small enough for thousands of connections to overflow them in every turn.
const TINY: RingSize = RingSize { submissions: 4, completions: 8 };

/// Exceeds a run's time on a busy machine, so that a test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(240);

const BURST: usize = 400;

const POLLS: usize = 32;

/// Length of the name that starts both directions of a connection.
const NAME: u64 = 8;

struct Random(u64);

fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Fills `bytes` with the stream's bytes from `offset` on: its name, then bytes derived from it.
fn fill(name: u64, mut offset: u64, bytes: &mut [u8]) {
    let mut left = bytes;
    while !left.is_empty() {
        let word = if offset < NAME { name } else { mix(name ^ (offset / 8)) };
        let from = (offset % 8) as usize;
        let n = left.len().min(8 - from);
        left[..n].copy_from_slice(&word.to_le_bytes()[from..from + n]);
        left = &mut left[n..];
        offset += n as u64;
    }
}

struct Plan {
    bytes: [u64; 2],
    /// The end that breaks it off (0 is the client), after how many of its sent bytes, and whether by a reset.
    breaks: Option<(usize, u64, bool)>,
    /// Ends that occasionally pause before they receive, so that their peers' sends are short.
    slow: [bool; 2],
}

impl Plan {
    fn of(name: u64) -> Self {
        let mut random = Random(name);
        let mut bytes = || match random.below(200) {
            0 => (1 << 20) + random.below(2 << 20),
            1..20 => random.below(100_000),
            _ => random.below(3000),
        };
        let bytes = [NAME + bytes(), NAME + bytes()];
        let slow = [random.one_in(4), random.one_in(4)];
        let breaks = random.one_in(3).then(|| {
            let end = random.below(2) as usize;
            (end, random.below(bytes[end] + 1), random.one_in(2))
        });
        Self { bytes, breaks, slow }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receive {
    None,
    Awaited,
    Lent,
    Given,
}

struct Conn {
    /// The server learns it from the first bytes.
    name: Option<u64>,
    head: Vec<u8>,
    open: bool,
    sent: u64,
    sending: Option<usize>,
    full: bool,
    shut: bool,
    received: u64,
    receive: Receive,
    readable: bool,
    rest: u64,
    ended: bool,
    /// To be closed once the engine has no buffers.
    doomed: bool,
}

struct Side<E> {
    engine: E,
    /// 0 for the client, 1 for the server.
    end: usize,
    conns: BTreeMap<SocketId, Conn>,
    pool: Pool,
    random: Random,
    /// Receive buffers given to the engine, and those returned.
    given: usize,
    returned: usize,
    short: usize,
    orderly: usize,
    broken: usize,
}

trait Stressed: Engine {
    /// The engine itself completes short sends.
    const COMPLETES: bool = false;

    fn descriptor(&self, id: SocketId) -> Option<BorrowedFd<'_>>;
}

impl Stressed for Epoll {
    fn descriptor(&self, id: SocketId) -> Option<BorrowedFd<'_>> {
        self.socket_descriptor(id)
    }
}

impl Stressed for Uepoll {
    fn descriptor(&self, id: SocketId) -> Option<BorrowedFd<'_>> {
        self.socket_descriptor(id)
    }
}

impl Stressed for Uring {
    const COMPLETES: bool = true;

    fn descriptor(&self, id: SocketId) -> Option<BorrowedFd<'_>> {
        self.socket_descriptor(id)
    }
}

impl<E: Stressed> Side<E> {
    fn new(engine: E, end: usize, seed: u64) -> Self {
        Self {
            engine,
            end,
            conns: BTreeMap::new(),
            pool: Pool::new(16 << 20),
            random: Random(mix(seed) ^ end as u64),
            given: 0,
            returned: 0,
            short: 0,
            orderly: 0,
            broken: 0,
        }
    }

    fn add(&mut self, id: SocketId, name: Option<u64>, open: bool) {
        let conn = Conn {
            name,
            head: Vec::new(),
            open,
            sent: 0,
            sending: None,
            full: false,
            shut: false,
            received: 0,
            receive: Receive::None,
            readable: false,
            rest: 0,
            ended: false,
            doomed: false,
        };
        assert!(self.conns.insert(id, conn).is_none(), "a name of an open socket was given again");
    }

    /// Gives some sockets the smallest send buffer that the kernel allows: their sends are short.
    fn narrow(&mut self, id: SocketId) {
        if self.random.one_in(4)
            && let Some(descriptor) = self.engine.descriptor(id)
        {
            sockopt::set_socket_send_buffer_size(descriptor, 1).unwrap();
        }
    }

    fn stream(&self, name: u64, sends: bool) -> u64 {
        if (self.end == 0) == sends { name } else { !name }
    }

    fn turn(&mut self, events: &mut Vec<Event>) {
        for id in self.conns.keys().copied().collect::<Vec<_>>() {
            self.send(id);
            self.receive(id);
            self.finish(id);
        }
        // Tiny queues deliver a few completions at a time.
        (0..POLLS).for_each(|_| self.poll(events));
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        self.engine.poll(Wait::Poll, events).unwrap();
        for event in events.drain(..) {
            self.happened(event);
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Accepted { socket, .. } => {
                self.add(socket, None, true);
                self.narrow(socket);
            }
            Event::Connected { socket, result } => {
                result.unwrap();
                self.conns.get_mut(&socket).expect("a connection of ours").open = true;
                self.narrow(socket);
            }
            Event::Readable(id) => {
                let Some(conn) = self.conns.get_mut(&id) else { return };
                conn.readable = true;
                if conn.receive == Receive::Awaited {
                    conn.receive = Receive::None;
                }
            }
            Event::Writable(id) => {
                if let Some(conn) = self.conns.get_mut(&id) {
                    conn.full = false;
                }
            }
            Event::Received(id, received) => self.received(id, received),
            Event::Sent(id, sent) => self.sent(id, sent),
            Event::Woken => panic!("the engine was not woken"),
        }
    }

    /// Returns the next bytes of this end's stream, in segments of all sizes.
    fn next_list(&mut self, stream: u64, mut offset: u64, left: u64) -> List {
        let pieces = 1 + self.random.below(4);
        let end = offset + left;
        let mut list = List::new();
        for _ in 0..pieces {
            let most = if self.random.one_in(8) { 2 << 20 } else { 5000 };
            let len = (1 + self.random.below(most)).min(end - offset) as usize;
            let mut block = self.pool.get(len);
            fill(stream, offset, &mut block);
            list.push(block);
            offset += len as u64;
        }
        list
    }

    fn send(&mut self, id: SocketId) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Some(name) = conn.name.filter(|_| conn.open) else { return };
        let (plan, sent) = (Plan::of(name), conn.sent);
        if conn.sending.is_some() || conn.full || conn.shut || conn.doomed {
            return;
        }
        if plan.breaks.is_some_and(|(end, after, _)| end == self.end && sent >= after) {
            return self.break_off(id, &plan);
        }
        let left = plan.bytes[self.end] - sent;
        if left == 0 {
            self.engine.shutdown(id);
            self.conns.get_mut(&id).expect("an open connection").shut = true;
            return;
        }
        let list = self.next_list(self.stream(name, true), sent, left);
        let len = list.len();
        let result = self.engine.send(id, list);
        self.conns.get_mut(&id).expect("an open connection").sending = Some(len);
        if let Some(sent) = result {
            self.sent(id, sent);
        } else if plan.breaks.is_some_and(|(end, _, _)| end == self.end) && self.random.one_in(4) {
            // While the kernel owns it.
            self.break_off(id, &plan);
        }
    }

    fn sent(&mut self, id: SocketId, sent: Sent) {
        let conn = self.conns.get_mut(&id).expect("no events of closed connections");
        let (name, offset) = (conn.name.expect("it has sent"), conn.sent);
        let len = conn.sending.take().expect("one send, and one end of it");
        conn.full = sent.full;
        let n = match sent.result {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return self.failed(id, &error),
        };
        assert_eq!(n + sent.rest.len(), len, "unsent bytes come back");
        conn.sent += n as u64;
        self.short += usize::from(!sent.rest.is_empty());
        let mut expected = [0; 16];
        let from = &mut expected[..sent.rest.len().min(16)];
        fill(self.stream(name, true), offset + n as u64, from);
        let mut begin = [0; 16];
        sent.rest.copy_to(&mut begin[..from.len()]);
        assert_eq!(begin, expected, "the rest begins where the sent bytes end");
    }

    fn receive(&mut self, id: SocketId) {
        for _ in 0..4 {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if !conn.open || conn.doomed || conn.ended || conn.receive != Receive::None {
                return;
            }
            if conn.rest > 0 {
                conn.rest -= 1;
                return;
            }
            let slow = conn.name.is_some_and(|name| Plan::of(name).slow[self.end]);
            if slow && self.random.one_in(4) {
                conn.rest = self.random.below(20);
            }
            let lends = self.engine.lends();
            if lends && self.random.one_in(2) {
                conn.receive = Receive::Lent;
                let limit = 1 + self.random.below(100_000) as usize;
                let bufs = RecvBufs { landing: Landing::shared(limit), ahead: None, ..RecvBufs::default() };
                assert!(self.engine.recv(id, bufs).is_none(), "it waits");
                return;
            }
            if !conn.readable {
                if lends {
                    conn.receive = Receive::Awaited;
                    self.engine.await_readable(id);
                }
                return;
            }
            conn.receive = Receive::Given;
            self.given += 1;
            let place = SegmentMut::from(vec![0xaa; 1 + self.random.below(3000) as usize]);
            let ahead = (1 + self.random.below(20_000)) as usize;
            let landing =
                if self.random.one_in(2) { Landing::at(place, ahead) } else { Landing::shared(ahead) };
            let bufs = RecvBufs { landing, ahead: Some(self.pool.get(ahead)), ..RecvBufs::default() };
            if let Some(received) = self.engine.recv(id, bufs) {
                self.received(id, received);
            }
        }
    }

    fn received(&mut self, id: SocketId, received: Received) {
        let conn = self.conns.get_mut(&id).expect("no events of closed connections");
        let was = std::mem::replace(&mut conn.receive, Receive::None);
        assert!(matches!(was, Receive::Lent | Receive::Given), "{was:?}: one receive, and one end of it");
        self.returned += usize::from(was == Receive::Given);
        // Each loan needs a new request.
        conn.readable = !received.drained;
        match received.result {
            Ok(0) => conn.ended = true,
            Ok(n) => {
                let ahead = received.bufs.ahead.map(SegmentMut::freeze);
                let places = received.bufs.landing.into_places().map(SegmentMut::freeze);
                let mut left = n;
                for segment in places.chain(ahead) {
                    let n = left.min(segment.len());
                    self.check(id, &segment[..n]);
                    left -= n;
                }
                assert_eq!(left, 0, "{n} bytes in too small buffers");
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.failed(id, &error),
        }
    }

    fn check(&mut self, id: SocketId, mut bytes: &[u8]) {
        let conn = self.conns.get_mut(&id).expect("an open connection");
        if conn.name.is_none() {
            let n = bytes.len().min(NAME as usize - conn.head.len());
            conn.head.extend_from_slice(&bytes[..n]);
            conn.received += n as u64;
            bytes = &bytes[n..];
            conn.name = conn.head[..].try_into().ok().map(u64::from_le_bytes);
        }
        let (Some(name), offset) = (conn.name, conn.received) else { return };
        conn.received += bytes.len() as u64;
        let mut expected = vec![0; bytes.len()];
        fill(self.stream(name, false), offset, &mut expected);
        assert!(bytes == expected, "wrong bytes in {}, from {offset}", bytes.len());
    }

    /// Handles a failed send or receive, which only a broken connection may have.
    fn failed(&mut self, id: SocketId, error: &io::Error) {
        let conn = self.conns.get_mut(&id).expect("an open connection");
        let breaks = conn.name.is_none_or(|name| Plan::of(name).breaks.is_some());
        assert!(breaks, "a connection failed without being broken off: {error}");
        conn.doomed = true;
    }

    fn break_off(&mut self, id: SocketId, plan: &Plan) {
        let conn = self.conns.get_mut(&id).expect("an open connection");
        conn.doomed = true;
        if plan.breaks.is_some_and(|(_, _, resets)| resets)
            && let Some(descriptor) = self.engine.descriptor(id)
        {
            sockopt::set_socket_linger(descriptor, Some(Duration::ZERO)).unwrap();
        }
    }

    fn finish(&mut self, id: SocketId) {
        let Some(conn) = self.conns.get(&id) else { return };
        let plan = conn.name.map(Plan::of);
        if conn.doomed {
            if conn.receive != Receive::Given {
                self.close(id);
                self.broken += 1;
            }
        } else if conn.ended && plan.as_ref().is_none_or(|plan| plan.breaks.is_some()) {
            // The peer has broken it off, possibly before it sent its name.
            self.conns.get_mut(&id).expect("an open connection").doomed = true;
        } else if conn.ended && conn.shut {
            let all = plan.expect("it has sent").bytes;
            assert_eq!((conn.sent, conn.received), (all[self.end], all[1 - self.end]));
            self.close(id);
            self.orderly += 1;
        } else if conn.ended {
            let all = plan.expect("it has a name").bytes;
            assert_eq!(conn.received, all[1 - self.end], "the end came early");
        }
    }

    fn close(&mut self, id: SocketId) {
        self.engine.close(id);
        self.conns.remove(&id);
    }
}

/// Opens `count` connections, all of them before the first sends, and runs them to their end.
fn run<E: Stressed>(open: impl Fn() -> E, count: usize, seed: u64) {
    let (mut server, mut client) = (Side::new(open(), 1, seed), Side::new(open(), 0, seed));
    let (_, addr): (_, SocketAddr) = server.engine.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (mut names, mut events) = (Random(seed), Vec::new());
    let end = clock::now() + PATIENCE;
    while client.conns.len() < count {
        for _ in 0..BURST.min(count - client.conns.len()) {
            let id = client.engine.connect(addr, LocalPort::Any).unwrap();
            client.add(id, Some(names.next()), false);
        }
        while server.conns.len() < client.conns.len() || client.conns.values().any(|conn| !conn.open) {
            assert!(clock::now() < end, "{} of {} are open", server.conns.len(), client.conns.len());
            server.poll(&mut events);
            client.poll(&mut events);
        }
    }
    while !client.conns.is_empty() || !server.conns.is_empty() {
        assert!(clock::now() < end, "{} and {} do not end", client.conns.len(), server.conns.len());
        server.turn(&mut events);
        client.turn(&mut events);
    }
    for side in [&server, &client] {
        assert_eq!(side.given, side.returned, "each buffer comes back once");
        assert_eq!(side.orderly + side.broken, count);
        assert!(side.orderly > count / 2 && side.broken > count / 5, "{} {}", side.orderly, side.broken);
        assert!(side.short > 0 || E::COMPLETES, "no send was short");
    }
}

fn stress<E: Stressed>(open: impl Fn() -> E) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let count = if is_long() { 5000 } else { 1000 };
    let seeds = Seeds { short: 1, long: 4 };
    seeds.each("-p onego-engine --lib stress", |seed| run(&open, count, 20_261 + seed));
}

fn zero_copy() -> Settings {
    Settings { mode: zero_copy::Mode::On, thresholds: Thresholds::default() }
}

#[test]
fn epoll_keeps_every_byte_under_stress() {
    stress(|| Epoll::open().unwrap());
}

#[test]
fn epoll_without_copies_keeps_every_byte_under_stress() {
    stress(|| {
        let mut engine = Epoll::open().unwrap();
        engine.set_zero_copy(zero_copy());
        engine
    });
}

#[test]
fn uepoll_keeps_every_byte_under_stress() {
    stress(|| Uepoll::with(TINY, &setup).unwrap());
}

#[test]
fn uring_keeps_every_byte_under_stress() {
    stress(|| Uring::with(Mode::Deferred, TINY, &setup).unwrap());
}

#[test]
fn uring_without_copies_keeps_every_byte_under_stress() {
    stress(|| {
        let mut engine = Uring::with(Mode::Deferred, TINY, &setup).unwrap();
        engine.set_zero_copy(zero_copy());
        engine
    });
}

#[test]
fn uring_of_an_older_kernel_keeps_every_byte_under_stress() {
    stress(|| Uring::with(Mode::Interrupting, TINY, &setup).unwrap().of_old());
}
