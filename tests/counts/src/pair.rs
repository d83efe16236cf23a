//! Two machines joined in memory, without loss and without a network's delays.
//!
//! It carries bytes as the pump of `onego_engine` does: requests for output are drained before each delivery, and bytes without a
//! receive buffer arrive in slices of large shared chunks. Only calls into the counted machine are counted; the copy from one
//! machine's output to the other's input stands for the kernel and is not.

use onego_buf::{List, Pool, SegmentMut};
use onego_wire::{Action, ConnId, ListenerId, Machine, Time};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Start of the synthetic clock.
pub(crate) const START: Time = Time::from_nanos(1_700_000_000_000_000_000);

/// Length of a turn on the synthetic clock.
const TURN: Duration = Duration::from_micros(1);

/// Bytes taken from a machine at a time, as the pump takes them.
const SEND_BATCH: usize = 1 << 20;

/// Size of a shared receive chunk, and the rest below which the next one is taken, as in the pump.
const CHUNK: usize = 256 << 10;
const MIN_REST: usize = CHUNK / 2;

/// Places of the ends of a line.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Turns after which a set-up that makes no progress has failed.
const TURNS_MAX: u32 = 1 << 20;

/// The counted side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedSide {
    Client,
    Server,
}

/// Runs `work` inside the function whose instructions valgrind counts.
#[inline(never)]
pub(crate) fn counted_section<R>(work: impl FnOnce() -> R) -> R {
    std::hint::black_box(work())
}

/// Runs `work`, and counts it if it is to be counted.
pub(crate) fn count_if<R>(is_counted: bool, work: impl FnOnce() -> R) -> R {
    if is_counted { counted_section(work) } else { work() }
}

/// One of the two machines.
pub(crate) struct End<M> {
    pub(crate) machine: M,
    is_counted: bool,
}

impl<M> End<M> {
    /// Calls into the machine, counted if its side is.
    pub(crate) fn call<R>(&mut self, call: impl FnOnce(&mut M) -> R) -> R {
        count_if(self.is_counted, || call(&mut self.machine))
    }
}

/// The end of a connection at one machine.
struct Port {
    conn: ConnId,
    /// Bytes in flight to this end.
    inbox: Vec<u8>,
    wants_transmit: bool,
}

impl Port {
    fn new(conn: ConnId) -> Self {
        Self { conn, inbox: Vec::new(), wants_transmit: true }
    }
}

/// The client's and the server's end of a connection.
type Line = [Port; 2];

/// A client and a server machine, and the connections between them.
pub(crate) struct MachinePair<C, S> {
    pub(crate) client: End<C>,
    pub(crate) server: End<S>,
    wires: Wires,
}

/// Everything between the two machines.
struct Wires {
    now: Time,
    lines: Vec<Line>,
    listeners: Vec<(ListenerId, SocketAddr)>,
    /// Connections that the client wants to open.
    dials: Vec<(ConnId, SocketAddr)>,
    pool: Pool,
    chunk: Option<SegmentMut>,
}

impl<C: Machine, S: Machine> MachinePair<C, S> {
    /// Joins the machines, and lets the server open its listeners.
    pub(crate) fn new(client: C, server: S) -> Self {
        let (lines, listeners, dials) = (Vec::new(), Vec::new(), Vec::new());
        let wires = Wires { now: START, lines, listeners, dials, pool: Pool::new(16 << 20), chunk: None };
        let mut this = Self {
            client: End { machine: client, is_counted: false },
            server: End { machine: server, is_counted: false },
            wires,
        };
        this.wires.act(&mut this.server, SERVER);
        this
    }

    /// Counts what `side` does from now on.
    pub(crate) fn count(&mut self, side: CountedSide) {
        self.client.is_counted = side == CountedSide::Client;
        self.server.is_counted = side == CountedSide::Server;
    }

    pub(crate) fn now(&self) -> Time {
        self.wires.now
    }

    /// Gives each machine a turn. Returns whether anything moved.
    fn turn(&mut self) -> bool {
        self.wires.now = self.wires.now + TURN;
        let client = self.wires.turn(&mut self.client, CLIENT);
        self.wires.dial(&mut self.client, &mut self.server);
        self.wires.turn(&mut self.server, SERVER) || client
    }

    /// Turns until `done`.
    ///
    /// # Panics
    /// If that never happens.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..TURNS_MAX {
            if done(self) {
                return;
            }
            if !self.turn() {
                let deadlines = [self.client.machine.deadline(), self.server.machine.deadline()];
                self.wires.now = deadlines.into_iter().flatten().min().unwrap_or(START).max(self.wires.now);
            }
        }
        panic!("the machines make no progress");
    }

    /// Runs a future to its end.
    pub(crate) fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut output = None;
        self.run_until(|_| {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                output = Some(value);
            }
            output.is_some()
        });
        output.expect("run_until returns once there is an output")
    }
}

impl Wires {
    /// One turn of the machine at port `side` of each line: deliveries, deadlines, actions, output.
    fn turn<M: Machine>(&mut self, end: &mut End<M>, side: usize) -> bool {
        let now = self.now;
        let mut moved = false;
        for at in 0..self.lines.len() {
            moved |= self.deliver(end, at, side);
        }
        if end.call(|machine| machine.deadline()).is_some_and(|deadline| deadline <= now) {
            end.call(|machine| machine.timeout(now));
            moved = true;
        }
        loop {
            let acted = self.act(end, side);
            moved |= acted;
            if !acted && !self.transmit(end, side) {
                return moved;
            }
        }
    }

    /// Carries out the actions of a machine.
    fn act<M: Machine>(&mut self, end: &mut End<M>, side: usize) -> bool {
        let now = self.now;
        let mut acted = false;
        while let Some(action) = end.call(|machine| machine.next_action(now)) {
            acted = true;
            match action {
                Action::Listen { listener, addr } => {
                    self.listeners.push((listener, addr));
                    end.machine.listening(now, listener, Ok(addr));
                }
                Action::Connect { conn, addr, .. } => self.dials.push((conn, addr)),
                Action::Transmit { conn } => {
                    let mut ports = self.lines.iter_mut().map(|line| &mut line[side]);
                    ports.find(|port| port.conn == conn).expect("the connection is open").wants_transmit =
                        true;
                }
                // Every turn offers bytes again.
                Action::Resume { .. } | Action::LowWater { .. } => {}
                other => panic!("machines that are joined in memory cannot carry out {other:?}"),
            }
        }
        acted
    }

    /// Opens the connections that the client wants.
    fn dial<C: Machine, S: Machine>(&mut self, client: &mut End<C>, server: &mut End<S>) {
        let now = self.now;
        for (conn, addr) in std::mem::take(&mut self.dials) {
            let local = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 50_000 + self.lines.len() as u16));
            let listener = self.listeners.iter().find(|(_, listening)| *listening == addr);
            let (listener, _) = listener.expect("the server listens where the client connects");
            let accepted = server.machine.accepted(now, *listener, local, addr);
            client.machine.connected(now, conn, local);
            self.lines.push([Port::new(conn), Port::new(accepted.expect("the server has room"))]);
        }
    }

    /// Moves the output of a machine to the inboxes of its peer.
    fn transmit<M: Machine>(&mut self, end: &mut End<M>, side: usize) -> bool {
        let (now, mut sent) = (self.now, false);
        for [client, server] in &mut self.lines {
            let (from, to) = if side == CLIENT { (client, server) } else { (server, client) };
            if !std::mem::take(&mut from.wants_transmit) {
                continue;
            }
            loop {
                let mut out = List::new();
                end.call(|machine| machine.transmit(now, from.conn, &mut out, SEND_BATCH));
                if out.is_empty() {
                    break;
                }
                sent = true;
                out.segments().for_each(|segment| to.inbox.extend_from_slice(segment));
                // Its memory goes back to the machine's pools.
                end.call(|_| drop(out));
            }
        }
        sent
    }

    /// Delivers the inbox of one end as far as its machine wants it.
    fn deliver<M: Machine>(&mut self, end: &mut End<M>, at: usize, side: usize) -> bool {
        let now = self.now;
        let conn = self.lines[at][side].conn;
        let mut inbox = std::mem::take(&mut self.lines[at][side].inbox);
        let mut rest = &inbox[..];
        while !rest.is_empty() {
            let landing = end.call(|machine| machine.landing(conn));
            let (before, ahead) = (rest.len(), landing.ahead);
            for mut place in landing.into_places() {
                let (bytes, after) = rest.split_at(rest.len().min(place.len()));
                place[..bytes.len()].copy_from_slice(bytes);
                rest = after;
                end.call(|machine| machine.landed(now, conn, place, bytes.len()));
            }
            let (bytes, after) = rest.split_at(rest.len().min(ahead).min(CHUNK));
            if !bytes.is_empty() {
                let chunk = self.chunk.take().filter(|chunk| chunk.len() >= bytes.len());
                let mut chunk = chunk.unwrap_or_else(|| self.pool.get(CHUNK));
                let mut shared = chunk.split_to(bytes.len());
                shared.copy_from_slice(bytes);
                self.chunk = (chunk.len() >= MIN_REST).then_some(chunk);
                end.call(|machine| machine.received(now, conn, shared.freeze()));
                rest = after;
            }
            if rest.len() == before {
                break;
            }
        }
        let taken = inbox.len() - rest.len();
        inbox.drain(..taken);
        self.lines[at][side].inbox = inbox;
        taken > 0
    }
}
