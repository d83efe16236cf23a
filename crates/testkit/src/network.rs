//! The simulated network: hosts, links and what is under way.

mod delivery;
mod end;
mod event;
mod host;
mod packet;
mod sockets;
mod stream;

use crate::faults::{Faults, happens, pick};
use crate::trace::Trace;
use end::End;
use event::{Happening, Key};
use host::{Host, Socket};
use onego_engine::{Event, Sleeper, SocketId, SocketTable, Waker};
use onego_wire::{LocalPort, Time};
use packet::Packet;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Virtual time starts with the year 2020: recognisable, and like a real clock far from zero.
const START: Time = Time::from_nanos(1_577_836_800_000_000_000);

/// Ports that are given out where the caller names none: IANA's dynamic range.
const FIRST_PORT: u16 = 49_152;

/// Ports for those who ask for reserved ones.
const RESERVED_PORTS: RangeInclusive<u16> = 512..=1023;

pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) trace: Trace,
    rng: SmallRng,
    faults: Faults,
    /// In order of time, and of their making at the same time.
    events: BTreeMap<Key, Happening>,
    made: u64,
    hosts: BTreeMap<IpAddr, Host>,
    /// From, to.
    cuts: BTreeSet<(IpAddr, IpAddr)>,
    /// What arrived over a cut link, in order: TCP sends it until the link is whole.
    held: Vec<Packet>,
    cutting: Option<Key>,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let mut network = Self {
            now: START,
            trace: Trace::new(),
            rng: SmallRng::seed_from_u64(seed),
            faults: Faults::none(),
            events: BTreeMap::new(),
            made: 0,
            hosts: BTreeMap::new(),
            cuts: BTreeSet::new(),
            held: Vec::new(),
            cutting: None,
        };
        network.set_faults(faults);
        network
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        if let Some(key) = self.cutting.take() {
            self.events.remove(&key);
        }
        self.plan_cut();
    }

    /// A random number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    fn at(&mut self, time: Time, happening: Happening) -> Key {
        let key = (time.max(self.now), self.made);
        self.made += 1;
        self.events.insert(key, happening);
        key
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Time> {
        self.events.keys().next().map(|key| key.0)
    }

    pub(crate) fn stop_at(&mut self, time: Time) {
        self.at(time, Happening::Stop);
    }

    /// Moves the clock and lets happen what is due.
    pub(crate) fn advance(&mut self, to: Time) {
        self.now = self.now.max(to);
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now
        {
            let ((time, _), happening) = entry.remove_entry();
            self.trace.note([time.as_nanos()]);
            self.happen(happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(packet) => self.arrive(packet),
            Happening::Announce(end) => self.announce(end),
            Happening::Readable(end) => self.tell_readable(end),
            Happening::Writable(end) => self.tell_writable(end),
            Happening::ConnectTimeout(end) => self.fail_connect(end, io::ErrorKind::TimedOut),
            Happening::EndOfLife(end) => self.reset(end),
            Happening::Cut => self.cut_somewhere(),
            Happening::Heal(a, b) => {
                self.heal(a, b);
                self.heal(b, a);
            }
            Happening::Stop => {}
        }
    }

    // Links.

    pub(crate) fn cut(&mut self, from: IpAddr, to: IpAddr) {
        self.cuts.insert((from, to));
    }

    pub(crate) fn heal(&mut self, from: IpAddr, to: IpAddr) {
        if self.cuts.remove(&(from, to)) {
            let (freed, held) = std::mem::take(&mut self.held)
                .into_iter()
                .partition(|packet| packet.from.host == from && packet.to == to);
            self.held = held;
            // Before anything else of the link arrives: order is kept.
            let freed: Vec<Packet> = freed;
            for packet in freed {
                self.arrive(packet);
            }
        }
    }

    pub(crate) fn heal_all(&mut self) {
        while let Some(&(from, to)) = self.cuts.first() {
            self.heal(from, to);
        }
    }

    fn plan_cut(&mut self) {
        if let Some(every) = &self.faults.cut_every {
            let time = self.now + pick(&mut self.rng, every);
            self.cutting = Some(self.at(time, Happening::Cut));
        }
    }

    fn cut_somewhere(&mut self) {
        if self.hosts.len() >= 2 {
            let a = self.below(self.hosts.len());
            let b = (a + 1 + self.below(self.hosts.len() - 1)) % self.hosts.len();
            let addr = |i| *self.hosts.keys().nth(i).expect("it is below their number");
            let (a, b) = (addr(a), addr(b));
            self.cut(a, b);
            self.cut(b, a);
            let lasts = pick(&mut self.rng, &self.faults.cut_lasts);
            self.at(self.now + lasts, Happening::Heal(a, b));
        }
        self.plan_cut();
    }

    // Hosts.

    fn host(&mut self, addr: IpAddr) -> &mut Host {
        self.hosts.get_mut(&addr).expect("a host that was started once")
    }

    pub(crate) fn start(&mut self, addr: IpAddr) {
        let host = self.hosts.entry(addr).or_insert_with(|| Host {
            running: false,
            sockets: SocketTable::default(),
            listeners: BTreeMap::new(),
            ready: VecDeque::new(),
            busy: false,
            sleeper: Sleeper::sleepless(),
            next_port: FIRST_PORT,
            next_reserved: *RESERVED_PORTS.start(),
        });
        assert!(!host.running, "a node runs at {addr} already");
        host.running = true;
        // Wakers of an earlier life are the dead node's.
        host.sleeper = Sleeper::sleepless();
    }

    /// The process is gone; the kernel closes its sockets with whatever was in them.
    pub(crate) fn stop(&mut self, addr: IpAddr) {
        let host = self.host(addr);
        host.running = false;
        host.listeners.clear();
        host.ready.clear();
        host.busy = false;
        let sockets: Vec<SocketId> = host.sockets.iter().map(|(id, _)| id).collect();
        for socket in sockets {
            self.abort(End { host: addr, socket });
        }
    }

    pub(crate) fn waker(&self, addr: IpAddr) -> Waker {
        self.hosts[&addr].sleeper.waker()
    }

    pub(crate) fn has_events(&self, addr: IpAddr) -> bool {
        self.hosts
            .get(&addr)
            .is_some_and(|host| !host.ready.is_empty() || host.busy || host.sleeper.is_woken())
    }

    /// Does an operation of that host end later? If so, it polls for it.
    pub(crate) fn completes_later(&mut self, addr: IpAddr) -> bool {
        let later = happens(&mut self.rng, self.faults.complete_later);
        self.host(addr).busy |= later;
        later
    }

    pub(crate) fn take_events(&mut self, addr: IpAddr, to: &mut Vec<Event>) {
        let host = self.host(addr);
        if host.sleeper.wake_up() {
            to.push(Event::Woken);
        }
        host.busy = false;
        to.extend(host.ready.drain(..));
        self.trace.note([to.len() as u64]);
    }

    fn free_port(&mut self, addr: IpAddr, wish: LocalPort) -> u16 {
        let host = self.host(addr);
        let (next, range) = match wish {
            LocalPort::Any => (&mut host.next_port, FIRST_PORT..=u16::MAX),
            LocalPort::Reserved | LocalPort::PreferReserved => (&mut host.next_reserved, RESERVED_PORTS),
        };
        let port = *next;
        *next = if port == *range.end() { *range.start() } else { port + 1 };
        port
    }

    pub(crate) fn listen(&mut self, host: IpAddr, addr: SocketAddr) -> io::Result<(SocketId, SocketAddr)> {
        if addr.ip() != host && !addr.ip().is_unspecified() {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let port = if addr.port() == 0 { self.free_port(host, LocalPort::Any) } else { addr.port() };
        let addr = SocketAddr::new(addr.ip(), port);
        let host = self.host(host);
        if host.listeners.contains_key(&addr) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let socket = host.sockets.insert(Socket::Listener(addr));
        host.listeners.insert(addr, socket);
        Ok((socket, addr))
    }
}
