//! Ten thousand connections on one reactor, half of them idle. With `ONEGO_TEST_LONG=1` traffic runs for a minute.
use onego_engine::{AnyEngine, EngineKind, Pump, Spin, Wait, now, open};
use onego_testkit::seeds::is_long;
use onego_testkit::{FrameEvent, Frames, Need};
use onego_wire::{ConnId, Disconnect, Time};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

const CONNS: usize = 10_000;

const DESCRIPTORS: u64 = CONNS as u64 + 500;

/// Connections opened at a time: fewer than a listener's queue holds.
const BURST: usize = 500;

const MEMORY: usize = 4 << 10;

const MESSAGE: [u8; 100] = [7; 100];

const PATIENCE: Duration = Duration::from_secs(60);
const PARTS: u32 = 5;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SERVE: &str = "ONEGO_TEST_MANY_SERVE";

#[derive(Debug, Clone, Copy)]
struct Report {
    allocated: usize,
    cpu: Duration,
    waits: u64,
}

impl Report {
    fn now(pump: &Pump<AnyEngine, Frames>) -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::new(time.tv_sec as u64, time.tv_nsec as u32);
        Self { allocated: ALLOCATED.load(Relaxed), cpu, waits: pump.stats().waits }
    }
}

/// An echo server in its own process: many systems allow one process fewer descriptors than both ends of all
/// connections need.
struct EchoServer {
    addr: SocketAddr,
    process: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl EchoServer {
    fn start(kind: EngineKind) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(SERVE, kind.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asks = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
        let addr = word_after(&mut answers, "addr").parse().unwrap();
        Self { addr, process, asks, answers }
    }

    fn report(&mut self) -> Report {
        writeln!(self.asks).unwrap();
        let allocated = word_after(&mut self.answers, "allocated").parse().unwrap();
        let cpu = Duration::from_nanos(word_after(&mut self.answers, "cpu").parse().unwrap());
        let waits = word_after(&mut self.answers, "waits").parse().unwrap();
        Report { allocated, cpu, waits }
    }

    fn stop(mut self) {
        drop(self.asks);
        assert!(self.process.wait().unwrap().success());
    }
}

fn word_after(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    lines
        .map(|line| line.expect("the server lives"))
        .find_map(|line| line.strip_prefix(word).map(|rest| rest.trim().to_owned()))
        .expect("the server answers")
}

pub(crate) fn serve_if_asked() -> bool {
    let Ok(kind) = std::env::var(SERVE) else { return false };
    raise_descriptor_limit();
    serve(kind.parse().unwrap());
    true
}

/// Runs the server: each line of input requests a report, and the end of the input stops it.
fn serve(kind: EngineKind) {
    let mut machine = Frames::echo();
    machine.listen(0, "127.0.0.1:0".parse().unwrap());
    let mut pump = Pump::new(open(kind).unwrap(), machine);
    // Each wait must be one that an event ended.
    pump.set_spin(Spin::Never);
    let (ask, asked) = mpsc::channel();
    let waker = pump.waker();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            ask.send(line.unwrap()).unwrap();
            waker.wake();
        }
        drop(ask);
        waker.wake();
    });
    loop {
        pump.turn(Wait::Forever).unwrap();
        while let Some(event) = pump.machine_mut().events.pop_front() {
            match event {
                FrameEvent::Listening(_, addr) => println!("\naddr {}", addr.unwrap()),
                FrameEvent::Accepted(..) | FrameEvent::Disconnected(_, Disconnect::Closed) => {}
                other => panic!("{other:?}"),
            }
        }
        match asked.try_recv() {
            Ok(_) => {
                let Report { allocated, cpu, waits } = Report::now(&pump);
                println!("allocated {allocated}\ncpu {}\nwaits {waits}", cpu.as_nanos());
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

struct EchoClient {
    pump: Pump<AnyEngine, Frames>,
    asked: Vec<Option<Time>>,
}

impl EchoClient {
    /// Turns once; passes replies with their latency to `answered`. Returns how many connections have opened.
    fn turn(&mut self, mut answered: impl FnMut(ConnId, Duration)) -> usize {
        self.pump.turn(Wait::Until(now() + Duration::from_millis(10))).unwrap();
        let mut opened = 0;
        while let Some(event) = self.pump.machine_mut().events.pop_front() {
            match event {
                FrameEvent::Connected(..) => opened += 1,
                FrameEvent::Frame(conn, frame) => {
                    assert_eq!(frame.len(), MESSAGE.len());
                    let asked = self.asked[conn.slot()].take().expect("an answer to a request");
                    answered(conn, now().since(asked));
                }
                other => panic!("{other:?}"),
            }
        }
        opened
    }

    fn ask(&mut self, conn: ConnId) {
        self.pump.machine_mut().send(conn, MESSAGE.to_vec());
        self.asked[conn.slot()] = Some(now());
    }

    fn connect(&mut self, addr: SocketAddr) -> Vec<ConnId> {
        let mut conns = Vec::with_capacity(CONNS);
        let end = now() + PATIENCE;
        while conns.len() < CONNS {
            conns.extend((0..BURST).map(|_| self.pump.machine_mut().connect(addr)));
            let mut opened = 0;
            while opened < BURST {
                assert!(now() < end, "{} connections are open", conns.len() - BURST + opened);
                opened += self.turn(|_, _| panic!("a reply without a request"));
            }
        }
        conns
    }

    fn ask_each(&mut self, conns: &[ConnId]) {
        conns.iter().for_each(|&conn| self.ask(conn));
        let (end, mut answers) = (now() + PATIENCE, 0);
        while answers < conns.len() {
            assert!(now() < end, "{answers} answers");
            self.turn(|_, _| answers += 1);
        }
    }

    /// Runs requests on all of `conns` for some time. Returns the 99th percentile of the latency in the best part of
    /// it, and the number of requests. Another program may occupy the processor in some part, but hardly in each.
    fn load(&mut self, conns: &[ConnId], time: Duration) -> (Duration, usize) {
        let parts: Vec<_> = (0..PARTS).map(|_| self.load_part(conns, time / PARTS)).collect();
        let best = parts.iter().map(|(p99, _)| *p99).min().unwrap_or_default();
        (best, parts.iter().map(|(_, count)| count).sum())
    }

    fn load_part(&mut self, conns: &[ConnId], time: Duration) -> (Duration, usize) {
        let end = now() + time;
        conns.iter().for_each(|&conn| self.ask(conn));
        let mut latencies = Vec::new();
        let mut answered = Vec::new();
        let mut out = conns.len();
        while out > 0 {
            assert!(now() < end + PATIENCE, "timeout: {out} replies are missing");
            self.turn(|conn, latency| {
                latencies.push(latency);
                answered.push(conn);
            });
            out -= answered.len();
            for conn in answered.drain(..) {
                if now() < end {
                    self.ask(conn);
                    out += 1;
                }
            }
        }
        latencies.sort();
        (latencies[latencies.len() * 99 / 100], latencies.len())
    }
}

/// Raises the descriptor limit to the system's maximum; a process of this test needs little more than [`CONNS`].
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// Checks the cost of an idle connection at either end: limited memory and no CPU time.
fn check_idle(kind: EngineKind, server: &mut EchoServer, client: &mut EchoClient) -> Vec<ConnId> {
    let (server_before, client_before) = (server.report(), Report::now(&client.pump));
    let conns = client.connect(server.addr);
    client.ask_each(&conns);
    // Longer than an engine keeps sent buffers.
    std::thread::sleep(Duration::from_millis(200));
    client.turn(|_, _| {});
    let (server_after, client_after) = (server.report(), Report::now(&client.pump));
    for (end, before, after) in
        [("server's", server_before, server_after), ("client's", client_before, client_after)]
    {
        let each = after.allocated.saturating_sub(before.allocated) / CONNS;
        println!("{kind}: an idle connection costs {each} bytes at the {end} end");
        assert!(each < MEMORY);
    }
    std::thread::sleep(Duration::from_millis(300));
    let later = server.report();
    let (waits, cpu) = (later.waits - server_after.waits, later.cpu - server_after.cpu);
    assert!(waits <= 6, "{kind}: {waits} waits while nothing happens");
    assert!(cpu < Duration::from_millis(5), "{kind}: {cpu:?} of CPU time while nothing happens");
    conns
}

fn ten_thousand(kind: EngineKind, time: Duration) {
    let mut server = EchoServer::start(kind);
    let pump = Pump::new(open(kind).unwrap(), Frames::default());
    let mut client = EchoClient { pump, asked: vec![None; CONNS] };
    let conns = check_idle(kind, &mut server, &mut client);
    let (idle, busy) = conns.split_at(CONNS / 2);
    let (beside_idle, count) = client.load(busy, time);
    idle.iter().for_each(|&conn| client.pump.machine_mut().close(conn));
    let end = now() + PATIENCE;
    while client.pump.connections() > busy.len() {
        assert!(now() < end, "{} connections are left", client.pump.connections());
        client.turn(|_, _| {});
    }
    let (alone, _) = client.load(busy, time);
    println!(
        "{kind}: p99 of {} busy connections is {beside_idle:?} next to the same number of idle ones ({count} requests), and \
         {alone:?} alone",
        busy.len()
    );
    let limit = 2 * alone + Duration::from_millis(20);
    assert!(beside_idle <= limit, "{kind}: p99 is {beside_idle:?} next to idle connections, {alone:?} alone");
    server.stop();
}

fn ten_thousand_connections_are_served_and_the_idle_ones_cost_next_to_nothing(kind: EngineKind) {
    raise_descriptor_limit();
    let time = if is_long() { Duration::from_secs(60) } else { Duration::from_millis(500) };
    ten_thousand(kind, time);
}

on_each_engine![
    [Need::Descriptors(DESCRIPTORS)];
    ten_thousand_connections_are_served_and_the_idle_ones_cost_next_to_nothing,
];
