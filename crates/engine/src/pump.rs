//! Event loop that drives a machine over any engine.
mod budget;
mod chunk;
mod coalescer;
mod conn;
mod low_water;
mod marks;
mod receive;
mod spin;
mod transmit;

use crate::descriptors;
use crate::engine::{Engine, Event, Stats};
use crate::system::clock::thread_cpu;
use crate::table::{ByName, SocketId};
use crate::wait::Wait;
use crate::waker::Waker;
use chunk::Chunks;
use coalescer::{Coalescer, PAUSE};
use conn::{Conn, Phase, RecvState, SendState};
use onego_wire::{Action, ConnId, Disconnect, Landing, ListenerId, Machine, Time};
use spin::Spinner;
pub use spin::{BadSpin, Spin};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Time that a connection closed by the machine has to flush and to see the peer close. Longer than any round trip with
/// a few retransmissions; short enough that descriptors of vanished peers do not accumulate.
const LINGER: Duration = Duration::from_secs(2);

/// A shorter wait found its event already available.
const SHORT: Duration = Duration::from_micros(10);

/// Drives one machine over one engine.
///
/// All work happens in [`turn`](Self::turn), on the caller's thread. Between turns the caller may use the machine
/// freely ([`machine_mut`](Self::machine_mut)); the next turn starts with the machine's new actions.
pub struct Pump<E, M> {
    engine: E,
    machine: M,
    /// All connections by the engine's names, including those that the machine has closed and that still send.
    conns: ByName<SocketId, Conn>,
    listeners: ByName<SocketId, ListenerId>,
    names: ByName<ConnId, SocketId>,
    chunks: Chunks,
    readable: VecDeque<SocketId>,
    /// Connections to send on. Each is queued once per turn, however many messages it has.
    dirty: VecDeque<SocketId>,
    /// Closed connections with the time at which each is given up, earliest first.
    lingering: VecDeque<(Time, SocketId)>,
    receives_out: usize,
    events: Vec<Event>,
    /// An action was answered with an event at once: the caller may want to inspect the machine before a turn sleeps.
    notified: bool,
    /// The caller has used the machine since its actions last ran: there may be new ones.
    touched: bool,
    /// The engine holds only part of the bytes to send: a sleeping turn must not rely on the engine's completion.
    behind: bool,
    spinner: Spinner,
    coalescer: Coalescer,
    marked: Vec<SocketId>,
    /// Waits whose event was not available at their start.
    waits: u64,
    moved: u64,
}

impl<E: Engine, M: Machine> Pump<E, M> {
    /// Creates a pump that owns and drives `machine` over `engine`.
    pub fn new(engine: E, machine: M) -> Self {
        Self {
            engine,
            machine,
            conns: ByName::default(),
            listeners: ByName::default(),
            names: ByName::default(),
            chunks: Chunks::default(),
            readable: VecDeque::new(),
            dirty: VecDeque::new(),
            lingering: VecDeque::new(),
            receives_out: 0,
            events: Vec::new(),
            notified: false,
            touched: true,
            behind: false,
            spinner: Spinner::new(Spin::default()),
            coalescer: Coalescer::new(true),
            marked: Vec::new(),
            waits: 0,
            moved: 0,
        }
    }

    /// Returns the machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// Returns the machine for new work, which the next [`turn`](Self::turn) carries out.
    pub fn machine_mut(&mut self) -> &mut M {
        self.touched = true;
        &mut self.machine
    }

    /// Returns the machine; the engine and all of its connections are closed.
    pub fn into_machine(self) -> M {
        self.machine
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    #[cfg(test)]
    pub(crate) fn engine_mut(&mut self) -> &mut E {
        &mut self.engine
    }

    /// Sets the pump's strategy before it sleeps.
    pub fn set_spin(&mut self, spin: Spin) {
        self.spinner = Spinner::new(spin);
        self.coalescer = Coalescer::new(spin == Spin::Adaptive);
    }

    /// Returns the engine's time.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// Returns a handle that wakes a sleeping turn from any thread and makes it call [`Machine::woken`].
    pub fn waker(&self) -> Waker {
        self.engine.waker()
    }

    /// Returns the engine's counters.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Returns the number of connections, including those that the machine has closed and that still send.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Returns when the next turn is due without further events; the engine's time now if work is pending.
    pub fn deadline(&self) -> Option<Time> {
        if self.touched || !self.readable.is_empty() || !self.dirty.is_empty() {
            return Some(self.now());
        }
        let linger = self.lingering.front().map(|&(time, _)| time);
        earliest(self.machine.deadline(), earliest(linger, self.delay_ends()))
    }

    /// Prepares for a sleep between turns outside the pump: until the returned descriptor is readable, or at most for
    /// the returned time. The next turn, which may be a poll, ends it. `None`: the next turn has work to do. Fails with
    /// `Unsupported` if the engine does not support this.
    pub fn sleep_elsewhere(&mut self) -> io::Result<Option<(BorrowedFd<'_>, Option<Duration>)>> {
        let now = self.now();
        let until_deadline = self.deadline().map(|deadline| deadline.since(now));
        if self.notified || self.behind || until_deadline.is_some_and(|wait| wait.is_zero()) {
            return Ok(None);
        }
        let asleep = self.engine.sleep_elsewhere()?;
        let least = |most: Option<Duration>| most.into_iter().chain(until_deadline).min();
        Ok(asleep.map(|(descriptor, most)| (descriptor, least(most))))
    }

    /// Runs one turn of the loop that [`Machine`] specifies: carries out the machine's actions, waits for events as
    /// long as `wait` and the deadlines allow, delivers the events, and carries out the resulting actions.
    ///
    /// An error is one of the event engine itself; the pump is unusable after it.
    pub fn turn(&mut self, wait: Wait) -> io::Result<()> {
        let now = self.now();
        self.notified = false;
        self.carry_out(now);
        let awake = self.notified || std::mem::take(&mut self.behind);
        let now = self.wait(now, if awake { Wait::Poll } else { wait })?;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.deliver(now, event);
        }
        self.events = events;
        self.end_delays(now);
        self.receive_all(now);
        if self.machine.deadline().is_some_and(|deadline| deadline <= now) {
            self.machine.timeout(now);
        }
        self.end_lingering(now);
        self.carry_out(now);
        self.begin_delays(now);
        Ok(())
    }

    fn wait(&mut self, now: Time, wait: Wait) -> io::Result<Time> {
        let wait = match (wait, self.deadline()) {
            (Wait::Poll, _) => Wait::Poll,
            (wait, None) => wait,
            (Wait::Forever, Some(deadline)) => Wait::Until(deadline),
            (Wait::Until(until), Some(deadline)) => Wait::Until(until.min(deadline)),
        };
        let wait = match wait {
            Wait::Until(time) if time <= now => Wait::Poll,
            wait => self.apply_marks(now, wait, self.spinner.spins() || self.coalescer.pauses()),
        };
        if wait == Wait::Poll {
            self.engine.poll(wait, &mut self.events)?;
            return Ok(self.now());
        }
        let mut time = self.pause(now, wait)?;
        if self.events.is_empty() {
            time = self.spin(time, wait)?;
        }
        if self.events.is_empty() {
            time = self.sleep(wait)?;
        }
        self.waits += u64::from(time.since(now) >= SHORT);
        self.coalescer.waited(time, self.moved, thread_cpu);
        Ok(time)
    }

    fn pause(&mut self, now: Time, wait: Wait) -> io::Result<Time> {
        if !self.coalescer.pauses() || matches!(wait, Wait::Until(time) if time < now + PAUSE) {
            return Ok(now);
        }
        self.engine.pause(PAUSE)?;
        self.engine.poll(Wait::Poll, &mut self.events)?;
        if !self.events.is_empty() {
            self.spinner.paused(self.moved);
        }
        Ok(self.now())
    }

    /// Polls for an event for a while, at most until `wait` ends, and returns the time afterwards.
    fn spin(&mut self, began: Time, wait: Wait) -> io::Result<Time> {
        let most = self.spinner.most();
        let mut now = began;
        while now.since(began) < most && !matches!(wait, Wait::Until(time) if time <= now) {
            let at_once = now == began;
            self.engine.poll(Wait::Poll, &mut self.events)?;
            now = self.now();
            if !self.events.is_empty() {
                if !at_once {
                    self.spinner.won(now.since(began), self.moved);
                }
                return Ok(now);
            }
            // The thread that produces the event may be waiting for this processor.
            std::thread::yield_now();
        }
        if !most.is_zero() && now.since(began) >= most {
            self.spinner.lost(now.since(began));
        }
        Ok(now)
    }

    fn sleep(&mut self, wait: Wait) -> io::Result<Time> {
        let began = self.now();
        let cpu = self.spinner.measures().then(thread_cpu);
        self.engine.poll(wait, &mut self.events)?;
        let now = self.now();
        if now.since(began) >= SHORT {
            self.spinner.slept(cpu.map(|cpu| thread_cpu().saturating_sub(cpu)), self.moved);
        }
        Ok(now)
    }

    fn deliver(&mut self, now: Time, event: Event) {
        match event {
            Event::Readable(socket) => {
                let Some(conn) = self.conns.get_mut(socket) else { return };
                if conn.phase == Phase::Watched {
                    let id = conn.id;
                    return self.machine.ready(now, id);
                }
                conn.set_readable();
                self.want_receive(socket);
            }
            Event::Writable(socket) => {
                if let Some(conn) = self.conns.get_mut(socket) {
                    if matches!(conn.send, SendState::Full) {
                        conn.send = SendState::Ready;
                    }
                    self.want_send(socket);
                }
            }
            Event::Received(socket, received) => {
                let provided =
                    self.conns.get_mut(socket).is_some_and(|conn| conn.recv == RecvState::Provided);
                self.receives_out -= usize::from(!provided);
                self.received(now, socket, received);
                self.want_receive(socket);
            }
            Event::Sent(socket, sent) => {
                self.sent(socket, sent);
                self.want_send(socket);
            }
            Event::Accepted { listener, socket, peer, local } => {
                self.accepted(now, listener, socket, peer, local);
            }
            Event::Connected { socket, result } => self.connected(now, socket, result),
            Event::Woken => self.machine.woken(now),
        }
    }

    fn accepted(
        &mut self,
        now: Time,
        listener: SocketId,
        socket: SocketId,
        peer: SocketAddr,
        local: SocketAddr,
    ) {
        let Some(&mut listener) = self.listeners.get_mut(listener) else {
            return self.engine.close(socket);
        };
        match self.machine.accepted(now, listener, peer, local) {
            Some(conn) => {
                self.name(conn, socket, Phase::Open);
                self.opened(socket);
            }
            None => self.engine.close(socket),
        }
    }

    fn connected(&mut self, now: Time, socket: SocketId, result: io::Result<SocketAddr>) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        match result {
            Ok(local) => {
                conn.phase = Phase::Open;
                let id = conn.id;
                self.machine.connected(now, id, local);
                self.opened(socket);
            }
            Err(error) => self.disconnect(now, socket, Disconnect::Failed(error)),
        }
    }

    fn opened(&mut self, socket: SocketId) {
        self.want_send(socket);
        if self.engine.lends() {
            self.wait_for_bytes(socket);
        }
    }

    /// Carries out the machine's actions and sends its bytes until it has no more of either.
    fn carry_out(&mut self, now: Time) {
        self.touched = false;
        loop {
            while let Some(action) = self.machine.next_action(now) {
                self.act(now, action);
            }
            // Sending may cause new actions. Connections that exhaust their budget requeue after the others and wait
            // for the next turn.
            for _ in 0..self.dirty.len() {
                if let Some(socket) = self.dirty.pop_front() {
                    self.transmit(now, socket);
                }
            }
            match self.machine.next_action(now) {
                Some(action) => self.act(now, action),
                None => return,
            }
        }
    }

    fn act(&mut self, now: Time, action: Action) {
        match action {
            Action::Listen { listener, addr } => {
                let result = self.engine.listen(addr);
                self.listening(now, listener, result);
            }
            Action::Adopt { listener, socket } => {
                let result = self.engine.adopt(socket);
                self.listening(now, listener, result);
            }
            Action::Attach { conn, socket } => {
                let result = self.engine.attach(socket);
                self.attached(now, conn, result);
            }
            Action::Connect { conn, addr, local } => {
                let socket = self.engine.connect(addr, local);
                self.begin(now, conn, socket, Phase::Connecting);
            }
            Action::Watch { conn, descriptor } => {
                let socket = self.engine.watch(descriptor);
                self.begin(now, conn, socket, Phase::Watched);
            }
            Action::WatchSignals { conn, eventfd } => {
                let socket = self.engine.watch_signals(eventfd);
                self.begin(now, conn, socket, Phase::Watched);
            }
            Action::Signal { eventfd } => descriptors::signal(&eventfd),
            Action::SendDescriptor { conn, message, descriptor } => {
                self.send_descriptor(now, conn, &message, descriptor);
            }
            Action::Transmit { conn } => {
                if let Some(&mut socket) = self.names.get_mut(conn) {
                    self.want_send(socket);
                }
            }
            Action::Resume { conn } => {
                if let Some(&mut socket) = self.names.get_mut(conn) {
                    self.want_receive(socket);
                }
            }
            Action::LowWater { conn, bytes } => self.set_mark(conn, bytes),
            Action::Close { conn } => self.close(now, conn),
        }
    }

    fn listening(&mut self, now: Time, listener: ListenerId, result: io::Result<(SocketId, SocketAddr)>) {
        let result = result.map(|(socket, local)| {
            self.listeners.insert(socket, listener);
            local
        });
        self.notified = true;
        self.machine.listening(now, listener, result);
    }

    fn attached(&mut self, now: Time, conn: ConnId, result: io::Result<(SocketId, SocketAddr)>) {
        match result {
            Ok((socket, local)) => {
                self.begin(now, conn, Ok(socket), Phase::Open);
                self.notified = true;
                self.machine.connected(now, conn, local);
                self.opened(socket);
            }
            Err(error) => self.begin(now, conn, Err(error), Phase::Open),
        }
    }

    /// Registers a connection that the machine requested, or reports its failure.
    fn begin(&mut self, now: Time, conn: ConnId, socket: io::Result<SocketId>, phase: Phase) {
        match socket {
            Ok(socket) => self.name(conn, socket, phase),
            Err(error) => {
                self.notified = true;
                self.machine.disconnected(now, conn, Disconnect::Failed(error));
            }
        }
    }

    fn name(&mut self, conn: ConnId, socket: SocketId, phase: Phase) {
        let before = self.names.insert(conn, socket);
        debug_assert!(before.is_none(), "the machine uses the name of a connection that it has not closed");
        self.conns.insert(socket, Conn::new(conn, phase));
    }

    /// Closes a connection for the machine. Takes all of its remaining bytes immediately, so that the machine may
    /// forget the connection even if the peer is gone.
    fn close(&mut self, now: Time, id: ConnId) {
        let Some(socket) = self.names.remove(id) else { return };
        let Some(conn) = self.conns.get_mut(socket) else { return };
        if conn.phase == Phase::Watched {
            self.conns.remove(socket);
            return self.engine.close(socket);
        }
        loop {
            let before = conn.out.len();
            self.machine.transmit(now, id, &mut conn.out, usize::MAX);
            if conn.out.len() == before {
                break;
            }
        }
        if conn.phase == Phase::Connecting {
            self.conns.remove(socket);
            return self.engine.close(socket);
        }
        for place in conn.held.take().into_iter().flat_map(Landing::into_places) {
            self.notified = true;
            self.machine.landed(now, id, place, 0);
        }
        conn.phase = Phase::Flushing;
        self.lingering.push_back((now + LINGER, socket));
        self.want_send(socket);
    }

    fn disconnect(&mut self, now: Time, socket: SocketId, cause: Disconnect) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        let id = conn.id;
        let known = matches!(conn.phase, Phase::Connecting | Phase::Open);
        let held = conn.held.take().unwrap_or_default();
        self.drop_socket(socket);
        if known {
            self.names.remove(id);
            held.into_places().for_each(|place| self.machine.landed(now, id, place, 0));
            self.machine.disconnected(now, id, cause);
        }
    }

    /// Closes the engine's socket once the engine holds no receive buffer.
    fn drop_socket(&mut self, socket: SocketId) {
        let Some(conn) = self.conns.get_mut(socket) else { return };
        if conn.recv == RecvState::Submitted {
            conn.phase = Phase::Doomed;
        } else {
            self.conns.remove(socket);
            self.engine.close(socket);
        }
    }

    fn end_lingering(&mut self, now: Time) {
        while let Some(&(time, socket)) = self.lingering.front()
            && (time <= now || self.conns.get_mut(socket).is_none())
        {
            self.lingering.pop_front();
            self.drop_socket(socket);
        }
    }

    fn want_receive(&mut self, socket: SocketId) {
        if let Some(conn) = self.conns.get_mut(socket)
            && conn.recv == RecvState::Ready
            && !conn.queued_receive
        {
            conn.queued_receive = true;
            self.readable.push_back(socket);
        }
    }

    fn want_send(&mut self, socket: SocketId) {
        if let Some(conn) = self.conns.get_mut(socket)
            && !conn.queued_send
        {
            conn.queued_send = true;
            self.dirty.push_back(socket);
        }
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
