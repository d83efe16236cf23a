//! What the pump costs: requests of 250 bytes and answers of 4,400 bytes, 128 under way on one connection, between
//! two threads; through the pump over each engine, and through a bare loop over blocking sockets as the floor.
//!
//! `cargo run --release -p onego-engine --example floor [SECONDS]`
use onego_buf::{List, Segment, SegmentMut};
use onego_engine::{AnyEngine, EngineKind, Pump, Wait, now, open};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

const REQUEST: usize = 250;
const ANSWER: usize = 4400;
const DEPTH: usize = 128;

/// Sends a message for each that comes.
struct Side {
    conns: ConnTable<()>,
    actions: VecDeque<Action>,
    message: Segment,
    /// Size of a message that comes, and bytes of one that has not come whole.
    size: usize,
    partial: usize,
    /// Messages to be sent, and received.
    owed: usize,
    count: u64,
    listening: Option<SocketAddr>,
}

impl Side {
    fn new(action: Action, conns: ConnTable<()>, sends: usize, size: usize, owed: usize) -> Self {
        Self {
            conns,
            actions: VecDeque::from([action]),
            message: SegmentMut::zeroed(sends).freeze(),
            size,
            partial: 0,
            owed,
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
        Some(self.conns.insert(()))
    }
    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}
    fn disconnected(&mut self, _: Time, conn: ConnId, _: Disconnect) {
        self.conns.remove(conn);
    }
    fn landing(&mut self, _: ConnId) -> Landing {
        Landing { place: None, ahead: 256 << 10 }
    }
    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}
    fn received(&mut self, _: Time, conn: ConnId, bytes: Segment) {
        self.partial += bytes.len();
        let whole = self.partial / self.size;
        self.partial %= self.size;
        self.count += whole as u64;
        if self.owed == 0 && whole > 0 {
            self.actions.push_back(Action::Transmit { conn });
        }
        self.owed += whole;
    }
    fn transmit(&mut self, _: Time, _: ConnId, out: &mut List, limit: usize) {
        while self.owed > 0 && out.len() < limit {
            out.push(self.message.clone());
            self.owed -= 1;
        }
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn timeout(&mut self, _: Time) {}
}

/// Messages a second through two pumps.
fn pumped(kind: EngineKind, time: Duration) -> f64 {
    let (send_addr, addr) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let any = Action::Listen { listener: ListenerId(0), addr: "127.0.0.1:0".parse().unwrap() };
        let side = Side::new(any, ConnTable::default(), ANSWER, REQUEST, 0);
        let mut pump = Pump::new(open(kind).unwrap(), side);
        pump.turn(Wait::Forever).unwrap();
        send_addr.send(pump.machine().listening.unwrap()).unwrap();
        while pump.machine().count == 0 || !pump.machine().conns.is_empty() {
            pump.turn(Wait::Forever).unwrap();
        }
        pump.stats()
    });
    let mut conns = ConnTable::default();
    let connect = Action::Connect { conn: conns.insert(()), addr: addr.recv().unwrap() };
    let mut pump: Pump<AnyEngine, Side> =
        Pump::new(open(kind).unwrap(), Side::new(connect, conns, REQUEST, ANSWER, DEPTH));
    let start = now();
    while now() < start + time {
        pump.turn(Wait::Forever).unwrap();
    }
    let count = pump.machine().count;
    let stats = pump.stats();
    drop(pump);
    let server = server.join().unwrap();
    let each = |calls: u64| count as f64 / calls.max(1) as f64;
    println!(
        "  messages a wait {:.1}, a receive {:.1}, a send {:.1}; server: {:.1}, {:.1}, {:.1}",
        each(stats.waits),
        each(stats.recvs),
        each(stats.sends),
        each(server.waits),
        each(server.recvs),
        each(server.sends)
    );
    count as f64 / time.as_secs_f64()
}

/// One side of the floor: a gathered send of as many messages as the last receive brought.
fn bare_side(mut stream: TcpStream, sends: usize, size: usize, mut owed: usize, until: Option<Time>) -> u64 {
    let message = vec![0; sends];
    let slices = vec![IoSlice::new(&message); 1024];
    let mut buffer = vec![0; 256 << 10];
    let (mut count, mut partial) = (0, 0);
    while until.is_none_or(|until| now() < until) {
        let mut left = owed * sends;
        while left > 0 {
            // A short blocking send happens only with signals; a byte count is all that matters to the peer.
            let whole = &slices[..left.div_ceil(sends).min(1024)];
            match sendmsg(&stream, whole, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(n) => left -= n.min(left),
                Err(_) => return count,
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return count,
            Ok(n) => partial += n,
        }
        owed = partial / size;
        partial %= size;
        count += owed as u64;
    }
    count
}

/// Messages a second through bare sockets.
fn bare(time: Duration) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let server = std::thread::spawn(move || bare_side(server, ANSWER, REQUEST, 0, None));
    let count = bare_side(client, REQUEST, ANSWER, DEPTH, Some(now() + time));
    server.join().unwrap();
    count as f64 / time.as_secs_f64()
}

/// Runs a case and says how many messages a second it made, and at which price for both sides together.
fn measure(name: &str, case: impl FnOnce() -> f64, time: Duration) -> (f64, f64) {
    let cpu = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let before = cpu();
    let rate = case();
    let price = (cpu() - before) * 1e6 / (rate * time.as_secs_f64());
    println!("{name}: {rate:.0}/s, {price:.2} us of CPU each");
    (rate, price)
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(2.0);
    let time = Duration::from_secs_f64(seconds);
    for _ in 0..3 {
        let floor = measure("bare", || bare(time), time);
        for kind in EngineKind::ALL {
            let (rate, price) = measure(&kind.to_string(), || pumped(kind, time), time);
            println!("  {:.2} of the floor's rate, {:.2} of its CPU", rate / floor.0, price / floor.1);
        }
    }
}
