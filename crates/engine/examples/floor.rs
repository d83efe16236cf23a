//! Cost of the pump: requests of one size and replies of another, 128 in flight between two threads; through the pump
//! over each engine, and through a bare loop over blocking sockets as the floor.
//!
//! `cargo run --release -p onego-engine --example floor [SECONDS [SPIN [ENGINE [REQUEST_SIZE]]]]`
use onego_buf::{List, Segment, SegmentMut};
use onego_engine::{AnyEngine, EngineKind, Pump, Spin, Wait, now, open, without_pacing};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, LocalPort, Machine, Time};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

/// Connections, and sizes of requests and replies: those of a 4 KiB storage read, and of writes.
const CASES: [(usize, usize, usize); 8] = [
    (1, 250, 4400),
    (1, 64, 64),
    (1, 1 << 10, 64),
    (1, 4 << 10, 64),
    (1, 16 << 10, 64),
    (1, 64 << 10, 64),
    (16, 1 << 10, 64),
    (128, 1 << 10, 64),
];
const DEPTH: usize = 128;
/// Rounds, of which the median counts: other programs disturb individual ones.
const ROUNDS: usize = 5;

struct Side {
    conns: ConnTable<Conn>,
    actions: VecDeque<Action>,
    message: Segment,
    size: usize,
    /// Initial messages on each connection.
    depth: usize,
    count: u64,
    listening: Option<SocketAddr>,
}

#[derive(Default)]
struct Conn {
    /// Bytes of an incomplete message.
    partial: usize,
    owed: usize,
}

impl Side {
    fn new(sends: usize, size: usize, depth: usize) -> Self {
        Self {
            conns: ConnTable::default(),
            actions: VecDeque::new(),
            message: SegmentMut::zeroed(sends).freeze(),
            size,
            depth,
            count: 0,
            listening: None,
        }
    }
}

impl Machine for Side {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.actions.pop_front()
    }
    fn listening(&mut self, _: Time, _: ListenerId, result: io::Result<SocketAddr>) {
        self.listening = Some(result.expect("a port is free"));
    }
    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        Some(self.conns.insert(Conn::default()))
    }
    fn connected(&mut self, _: Time, conn: ConnId, _: SocketAddr) {
        if let Some(state) = self.conns.get_mut(conn) {
            state.owed = self.depth;
        }
    }
    fn disconnected(&mut self, _: Time, conn: ConnId, _: Disconnect) {
        self.conns.remove(conn);
    }
    fn landing(&mut self, _: ConnId) -> Landing {
        Landing::shared(256 << 10)
    }
    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}
    fn received(&mut self, _: Time, conn: ConnId, bytes: Segment) {
        let Some(state) = self.conns.get_mut(conn) else { return };
        state.partial += bytes.len();
        let whole = state.partial / self.size;
        state.partial %= self.size;
        self.count += whole as u64;
        if state.owed == 0 && whole > 0 {
            self.actions.push_back(Action::Transmit { conn });
        }
        state.owed += whole;
    }
    fn transmit(&mut self, _: Time, conn: ConnId, out: &mut List, limit: usize) {
        let Some(state) = self.conns.get_mut(conn) else { return };
        while state.owed > 0 && out.len() < limit {
            out.push(self.message.clone());
            state.owed -= 1;
        }
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn timeout(&mut self, _: Time) {}
}

#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Requests per second.
    rate: f64,
    /// CPU time of both sides per request.
    micros: f64,
    /// System calls of both sides per request, if counted.
    calls: f64,
}

#[derive(Clone, Copy)]
struct Load {
    conns: usize,
    request: usize,
    answer: usize,
    time: Duration,
    spin: Spin,
}

/// Runs a load through two pumps; returns the requests answered and the system calls made.
fn pumped(kind: EngineKind, load: Load) -> (u64, u64) {
    let (send_addr, addr) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let mut side = Side::new(load.answer, load.request, 0);
        let addr = "127.0.0.1:0".parse().unwrap();
        side.actions.push_back(Action::Listen { listener: ListenerId(0), addr });
        let mut pump = Pump::new(open(kind).unwrap(), side);
        pump.set_spin(load.spin);
        pump.turn(Wait::Forever).unwrap();
        send_addr.send(pump.machine().listening.unwrap()).unwrap();
        while pump.machine().count == 0 || !pump.machine().conns.is_empty() {
            pump.turn(Wait::Forever).unwrap();
        }
        pump.stats()
    });
    let addr = addr.recv().unwrap();
    let mut client = Side::new(load.request, load.answer, DEPTH / load.conns);
    for _ in 0..load.conns {
        let conn = client.conns.insert(Conn::default());
        client.actions.push_back(Action::Connect { conn, addr, local: LocalPort::Any });
    }
    let mut pump: Pump<AnyEngine, Side> = Pump::new(open(kind).unwrap(), client);
    pump.set_spin(load.spin);
    let end = now() + load.time;
    while now() < end {
        pump.turn(Wait::Forever).unwrap();
    }
    let (count, stats) = (pump.machine().count, pump.stats());
    drop(pump);
    let server = server.join().unwrap();
    if std::env::var_os("FLOOR_DETAILS").is_some() {
        println!("{kind} client {stats:?}\n{kind} server {server:?}");
    }
    (count, stats.system_calls + server.system_calls)
}

/// Runs one side of the floor: a gathered send of as many messages as the last receive brought.
fn bare_side(
    mut stream: TcpStream,
    sends: usize,
    size: usize,
    mut owed: usize,
    until: Option<Time>,
) -> (u64, u64) {
    let message = vec![0; sends];
    let slices = vec![IoSlice::new(&message); 1024];
    let mut buffer = vec![0; 256 << 10];
    let (mut count, mut partial, mut calls) = (0, 0, 0);
    while until.is_none_or(|until| now() < until) {
        let mut left = owed * sends;
        while left > 0 {
            // A blocking send is short only after a signal; only the byte count matters to the peer.
            let whole = &slices[..left.div_ceil(sends).min(1024)];
            calls += 1;
            match sendmsg(&stream, whole, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(n) => left -= n.min(left),
                Err(_) => return (count, calls),
            }
        }
        calls += 1;
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return (count, calls),
            Ok(n) => partial += n,
        }
        owed = partial / size;
        partial %= size;
        count += owed as u64;
    }
    (count, calls)
}

fn bare(load: Load) -> (u64, u64) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
        without_pacing(stream);
    }
    let server = std::thread::spawn(move || bare_side(server, load.answer, load.request, 0, None));
    let (count, calls) = bare_side(client, load.request, load.answer, DEPTH, Some(now() + load.time));
    (count, calls + server.join().unwrap().1)
}

fn measure(load: Load, case: impl FnOnce(Load) -> (u64, u64)) -> Figures {
    let cpu = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let before = cpu();
    let (count, calls) = case(load);
    let count = count.max(1) as f64;
    Figures {
        rate: count / load.time.as_secs_f64(),
        micros: (cpu() - before) * 1e6 / count,
        calls: calls as f64 / count,
    }
}

fn median(rounds: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn arg<T: FromStr>(n: usize) -> Option<T> {
    std::env::args().nth(n)?.parse().ok()
}

fn main() {
    let time = Duration::from_secs_f64(arg(1).unwrap_or(0.5));
    let spin = arg(2).unwrap_or_default();
    println!(
        "{:>5} {:>10} {:>7} {:>9} {:>12} {:>7} {:>9}",
        "conns", "sizes", "engine", "each s", "CPU us each", "ratio", "calls each"
    );
    let kinds: Vec<EngineKind> = match arg(3) {
        Some(engine) => vec![engine],
        None => EngineKind::ALL.to_vec(),
    };
    let only: Option<usize> = arg(4);
    for (conns, request, answer) in CASES {
        if only.is_some_and(|only| only != request) {
            continue;
        }
        let load = Load { conns, request, answer, time, spin };
        let names = std::iter::once("bare".to_owned()).chain(kinds.iter().map(EngineKind::to_string));
        let mut cases: Vec<(String, Vec<Figures>)> = names.map(|name| (name, Vec::new())).collect();
        for _ in 0..ROUNDS {
            if conns == 1 {
                cases[0].1.push(measure(load, bare));
            }
            for (case, kind) in cases[1..].iter_mut().zip(&kinds) {
                case.1.push(measure(load, |load| pumped(*kind, load)));
            }
        }
        // The floor supports only one connection.
        cases.retain(|case| !case.1.is_empty());
        let floor = median(&cases[0].1, |figures| figures.micros);
        for (name, rounds) in &cases {
            let micros = median(rounds, |figures| figures.micros);
            println!(
                "{conns:>5} {:>10} {name:>7} {:>9.0} {micros:>12.2} {:>7.2} {:>9.3}",
                format!("{request}/{answer}"),
                median(rounds, |figures| figures.rate),
                micros / floor,
                median(rounds, |figures| figures.calls),
            );
        }
    }
}
