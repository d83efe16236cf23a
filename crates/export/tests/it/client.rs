//! The client of NBD against the server, on a simulated network with virtual time.

use onego_block::{
    Backend as _, BlockStatus, Completions, Counted, Device, Error, Flags, Geometry, Memory, Op, Outcome,
    Request, StatusExtent, Volatile,
};
use onego_buf::SegmentMut;
use onego_engine::Pump;
use onego_export::nbd::{Config, Export, Server};
use onego_nbd::client::{self, ClientError, Endpoint, NbdClient};
use onego_testkit::seeds::Seeds;
use onego_testkit::{Faults, Sim, SimEngine};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SIZE: u64 = 8 << 20;
const SERVER: &str = "10.0.0.1";
const CLIENT: &str = "10.0.0.2";

/// Time in which everything must have happened.
const LONG: Duration = Duration::from_secs(3600);

/// A server of one export, "disk", and a client of it.
struct NbdWorld {
    sim: Sim,
    server: Option<Pump<SimEngine, Server>>,
    client: Pump<SimEngine, NbdClient>,
    device: Rc<dyn Device>,
    completions: Completions,
}

fn server(sim: &Sim, device: Rc<dyn Device>, read_only: bool) -> Pump<SimEngine, Server> {
    let mut server = Server::new(Config::default());
    let export = Export { name: "disk".into(), description: String::new(), device, read_only };
    server.add_export(export).unwrap();
    server.listen(format!("{SERVER}:10809").parse().unwrap());
    Pump::new(sim.engine(SERVER.parse().unwrap()), server)
}

impl NbdWorld {
    fn new(seed: u64, faults: Faults, under: Rc<dyn Device>, connections: usize) -> Self {
        let mut this = Self::unopened(seed, under, connections, "disk", false);
        this.open().unwrap();
        this.sim.set_faults(faults);
        this
    }

    fn unopened(seed: u64, under: Rc<dyn Device>, connections: usize, name: &str, read_only: bool) -> Self {
        let mut sim = Sim::new(seed, Faults::none());
        let mut server = server(&sim, under, read_only);
        sim.run_for(&mut [&mut server], Duration::from_secs(1));
        let config = client::Config { connections, seed, ..client::Config::new(name) };
        let endpoint = Endpoint::Tcp(vec![format!("{SERVER}:10809").parse().unwrap()]);
        let client = NbdClient::new(config, endpoint).unwrap();
        let device = client.device();
        let client = Pump::new(sim.engine(CLIENT.parse().unwrap()), client);
        Self { sim, server: Some(server), client, device, completions: Completions::default() }
    }

    fn open(&mut self) -> Result<(), ClientError> {
        let mut opened = self.client.machine().opened();
        loop {
            let polled = Pin::new(&mut opened).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(result) = polled {
                return result;
            }
            self.step();
        }
    }

    fn step(&mut self) -> bool {
        match &mut self.server {
            Some(server) => self.sim.step(&mut [server, &mut self.client]),
            None => self.sim.step(&mut [&mut self.client]),
        }
    }

    fn submit(&mut self, tag: u64, offset: u64, op: Op, flags: Flags) {
        let request = Request::new(self.completions.caller(tag), offset, op).with_flags(flags);
        self.device.submit(self.client.now(), request);
        // The machine has work: it is looked at in the next turn.
        self.client.machine_mut();
    }

    /// Runs until a request completes.
    fn next(&mut self) -> (u64, Result<Outcome, Error>) {
        let end = self.sim.now() + LONG;
        loop {
            if let Some(completion) = self.completions.take() {
                return (completion.tag, completion.result);
            }
            assert!(self.step() && self.sim.now() < end, "a request does not complete");
        }
    }

    fn run(&mut self, offset: u64, op: Op, flags: Flags) -> Result<Outcome, Error> {
        self.submit(0, offset, op, flags);
        self.next().1
    }

    fn write(&mut self, offset: u64, bytes: Vec<u8>) {
        self.run(offset, Op::Write { data: bytes.into() }, Flags::default()).unwrap();
    }

    fn flush(&mut self) -> Result<Outcome, Error> {
        self.run(0, Op::Flush, Flags::default())
    }

    fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        match self.run(offset, Op::Read { length }, Flags::default()).unwrap() {
            Outcome::Data(data) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Ends the server, and waits until the client has noticed.
    fn kill(&mut self) {
        self.server = None;
        let end = self.sim.now() + Duration::from_millis(10);
        self.sim.run_until(&mut [&mut self.client], end);
    }
}

fn memory() -> Rc<Memory> {
    Rc::new(Memory::new(Geometry::new(SIZE)))
}

fn addr(of: &str) -> IpAddr {
    of.parse().unwrap()
}

#[test]
fn the_export_is_the_device_of_the_server() {
    let mut world = NbdWorld::new(1, Faults::none(), memory(), 1);
    let geometry = world.device.geometry();
    assert_eq!((geometry.size, geometry.block, geometry.max_io), (SIZE, 1, 32 << 20));
    assert!(!geometry.read_only && geometry.shared_flush && geometry.trim_granularity.is_some());
    world.write(12_345, vec![7; 100_000]);
    assert_eq!(world.read(12_300, 100), [vec![0; 45], vec![7; 55]].concat());
    let mut buffer = SegmentMut::zeroed(200_000);
    let place = buffer.as_ptr();
    buffer.fill(9);
    match world.run(0, Op::ReadInto { buffer }, Flags::default()).unwrap() {
        Outcome::Filled(buffer) => {
            assert_eq!(buffer.as_ptr(), place, "the caller gets its own memory back");
            assert_eq!(buffer[12_345..112_345], [7; 100_000]);
            assert_eq!(buffer[112_345..], [0; 87_655]);
        }
        other => panic!("{other:?}"),
    }
    world.run(12_345, Op::Trim { length: 50_000 }, Flags::default()).unwrap();
    world.run(80_000, Op::Zero { length: 1000 }, Flags { fua: true, ..Flags::default() }).unwrap();
    match world.run(0, Op::Status { length: SIZE }, Flags::default()).unwrap() {
        Outcome::Status(runs) => {
            let run = |length, status| StatusExtent { length, status };
            let expected = [
                run(62_345, BlockStatus::HOLE),
                run(17_655, BlockStatus::DATA),
                run(1000, BlockStatus::HOLE),
                run(31_345, BlockStatus::DATA),
                run(SIZE - 112_345, BlockStatus::HOLE),
            ];
            assert_eq!(runs, expected);
        }
        other => panic!("{other:?}"),
    }
    world.flush().unwrap();
    let refused = world.run(0, Op::Zero { length: 9 }, Flags { no_hole: true, fast: true, fua: false });
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
    let refused = world.run(SIZE, Op::Read { length: 1 }, Flags::default());
    assert!(matches!(refused, Err(Error::OutOfBounds { .. })), "{refused:?}");
}

#[test]
fn an_export_that_is_not_there_or_only_read_says_so() {
    let mut world = NbdWorld::unopened(1, memory(), 1, "other", false);
    let refused = world.open().unwrap_err();
    assert!(matches!(&refused, ClientError::NoExport { name, .. } if name == "other"), "{refused}");
    let mut world = NbdWorld::unopened(1, memory(), 1, "disk", true);
    world.open().unwrap();
    let refused = world.run(0, Op::Write { data: vec![1].into() }, Flags::default()).unwrap_err();
    assert_eq!(refused, Error::ReadOnly);
    let mut world = NbdWorld::unopened(1, memory(), 1, "disk", false);
    world.server = None;
    assert!(matches!(world.open(), Err(ClientError::Unreachable(_))));
}

#[test]
fn several_connections_share_the_requests() {
    let counted = Rc::new(Counted::new(memory()));
    let mut world = NbdWorld::new(1, Faults::none(), counted, 4);
    let end = world.sim.now() + Duration::from_secs(1);
    let server = world.server.as_mut().unwrap();
    world.sim.run_until(&mut [server, &mut world.client], end);
    assert_eq!(world.server.as_ref().unwrap().connections(), 4);
    for tag in 0..64 {
        world.submit(tag, tag * 4096, Op::Write { data: vec![tag as u8; 4096].into() }, Flags::default());
    }
    (0..64).for_each(|_| assert!(world.next().1.is_ok()));
    let bytes = world.read(0, 64 * 4096);
    assert!(bytes.chunks(4096).enumerate().all(|(tag, block)| block == [tag as u8; 4096]));
}

/// What a seed has seen.
#[derive(Default)]
struct Seen {
    failed_flushes: u64,
    connections: u64,
}

/// Requests to slots of their own, with others in flight, on a network that breaks connections.
fn random_requests(seed: u64) -> Seen {
    const SLOT: u64 = 256 << 10;
    let faults = match seed % 3 {
        0 => Faults::none(),
        _ => Faults::ragged(),
    };
    let breaks = seed % 3 == 2;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut world = NbdWorld::new(seed, faults, memory(), 1 + seed as usize % 3);
    let mut model = vec![0_u8; SIZE as usize];
    let mut seen = Seen::default();
    let slots = SIZE / SLOT;
    let mut expected: Vec<Option<Vec<u8>>> = vec![None; slots as usize];
    let mut left = 200;
    let mut busy = 0;
    while left > 0 || busy > 0 {
        let free: Vec<u64> = (0..slots).filter(|slot| expected[*slot as usize].is_none()).collect();
        if left > 0 && busy < 8 {
            left -= 1;
            busy += 1;
            let slot = free[random.random_range(0..free.len())];
            let offset = slot * SLOT + random.random_range(0..SLOT / 2);
            let length = match random.random_range(0..3) {
                0 => random.random_range(1..1000),
                1 => random.random_range(1..SLOT / 2),
                _ => 16 << 10,
            };
            let these = offset as usize..(offset + length) as usize;
            let flags = Flags { fua: random.random_ratio(1, 4), ..Flags::default() };
            let op = match random.random_range(0..5) {
                0 => {
                    let mut bytes = vec![0; length as usize];
                    random.fill_bytes(&mut bytes);
                    model[these.clone()].copy_from_slice(&bytes);
                    Op::Write { data: bytes.into() }
                }
                1 => {
                    model[these.clone()].fill(0);
                    Op::Zero { length }
                }
                2 => Op::ReadInto { buffer: SegmentMut::zeroed(length as usize) },
                3 => Op::Read { length },
                _ => Op::Flush,
            };
            expected[slot as usize] = Some(model[these].to_vec());
            world.submit(slot, if matches!(op, Op::Flush) { 0 } else { offset }, op, flags);
            continue;
        }
        if breaks && random.random_ratio(1, 10) {
            world.sim.reset(addr(CLIENT));
        }
        let (slot, result) = world.next();
        busy -= 1;
        let wanted = expected[slot as usize].take().unwrap();
        match result {
            Ok(Outcome::Data(data)) => assert!(data.to_vec() == wanted, "read"),
            Ok(Outcome::Filled(buffer)) => assert!(buffer[..] == wanted[..], "read into"),
            Ok(_) => {}
            Err(Error::Failed(why)) if why.contains("may be lost") => seen.failed_flushes += 1,
            Err(error) => panic!("{error}"),
        }
    }
    world.sim.set_faults(Faults::none());
    assert!(world.read(0, SIZE) == model);
    seen.connections = world.server.as_ref().unwrap().machine().counters().accepted;
    seen
}

#[test]
fn requests_are_carried_out_once_each_on_connections_that_break() {
    let seeds = Seeds { short: 30, long: 3000 };
    let Some(seen) = seeds.each("-p onego-export --test it client::", random_requests) else { return };
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    assert!(sum(|seen| seen.connections) > 100, "connections broke");
    assert!(sum(|seen| seen.failed_flushes) > 0, "flushes had something to lose");
}

#[test]
fn a_flush_after_a_crash_of_the_server_fails_once_and_the_next_is_good() {
    let device = Rc::new(Volatile::new(Geometry::new(SIZE)));
    let mut world = NbdWorld::new(1, Faults::none(), Rc::clone(&device) as _, 1);
    world.write(0, vec![1; 4096]);
    world.flush().unwrap();
    world.write(4096, vec![2; 4096]);
    world.kill();
    device.crash(|| false);
    world.server = Some(server(&world.sim, Rc::clone(&device) as _, false));
    let failed = world.flush().unwrap_err();
    assert!(failed.to_string().contains("may be lost"), "{failed}");
    assert_eq!(world.read(0, 8192), [vec![1; 4096], vec![0; 4096]].concat());
    world.flush().unwrap();
    // What was flushed cannot be lost, and is not said to be.
    world.write(4096, vec![3; 4096]);
    world.flush().unwrap();
    world.kill();
    device.crash(|| false);
    world.server = Some(server(&world.sim, device, false));
    world.flush().unwrap();
    assert_eq!(world.read(4096, 4096), vec![3; 4096]);
}

#[test]
fn a_flush_that_was_under_way_in_a_crash_is_not_taken_for_done() {
    let device = Rc::new(Volatile::new(Geometry::new(SIZE)));
    let mut world = NbdWorld::new(1, Faults::none(), Rc::clone(&device) as _, 1);
    world.write(0, vec![1; 4096]);
    world.submit(9, 0, Op::Flush, Flags::default());
    // It is sent, and never answered.
    let end = world.sim.now() + Duration::from_micros(10);
    world.sim.run_until(&mut [&mut world.client], end);
    world.kill();
    device.crash(|| false);
    world.server = Some(server(&world.sim, device, false));
    let (tag, result) = world.next();
    assert_eq!(tag, 9);
    assert!(result.unwrap_err().to_string().contains("may be lost"));
}

#[test]
fn requests_wait_for_a_server_that_is_away_and_fail_when_patience_ends() {
    let device = memory();
    let mut world = NbdWorld::new(1, Faults::none(), Rc::clone(&device) as _, 2);
    world.write(0, vec![5; 4096]);
    world.flush().unwrap();
    world.kill();
    world.submit(1, 0, Op::Read { length: 4096 }, Flags::default());
    let end = world.sim.now() + Duration::from_secs(30);
    world.sim.run_until(&mut [&mut world.client], end);
    assert!(world.completions.is_empty());
    world.server = Some(server(&world.sim, Rc::clone(&device) as _, false));
    assert!(matches!(world.next(), (1, Ok(Outcome::Data(data))) if data.to_vec() == [5; 4096]));
    world.kill();
    let since = world.sim.now();
    let failed = world.run(0, Op::Read { length: 4096 }, Flags::default()).unwrap_err();
    assert!(matches!(failed, Error::TimedOut(_)), "{failed}");
    let waited = world.sim.now().since(since);
    assert!((Duration::from_secs(55)..Duration::from_secs(65)).contains(&waited), "{waited:?}");
    world.server = Some(server(&world.sim, device, false));
    let end = world.sim.now() + Duration::from_secs(30);
    let server = world.server.as_mut().unwrap();
    world.sim.run_until(&mut [server, &mut world.client], end);
    assert_eq!(world.read(0, 4096), vec![5; 4096]);
}

#[test]
fn a_server_that_falls_silent_is_left_for_a_new_connection() {
    let mut world = NbdWorld::new(1, Faults::none(), memory(), 1);
    world.write(0, vec![5; 1 << 20]);
    world.sim.cut(addr(SERVER), addr(CLIENT));
    world.submit(1, 0, Op::ReadInto { buffer: SegmentMut::zeroed(1 << 20) }, Flags::default());
    let end = world.sim.now() + Duration::from_secs(70);
    let server = world.server.as_mut().unwrap();
    world.sim.run_until(&mut [server, &mut world.client], end);
    world.sim.heal_all();
    assert!(matches!(world.next(), (1, Ok(Outcome::Filled(buffer))) if buffer[..] == [5; 1 << 20]));
}

#[test]
fn a_client_that_leaves_says_so_and_fails_what_comes_later() {
    let mut world = NbdWorld::new(1, Faults::none(), memory(), 2);
    world.write(0, vec![5; 4096]);
    let now = world.client.now();
    world.client.machine_mut().leave(now);
    assert!(world.client.machine().is_leaving());
    let end = world.sim.now() + Duration::from_secs(1);
    let server = world.server.as_mut().unwrap();
    world.sim.run_until(&mut [server, &mut world.client], end);
    assert!(!world.client.machine().is_leaving());
    let server = world.server.as_ref().unwrap();
    assert_eq!((server.connections(), server.machine().counters().given_up), (0, 0));
    let failed = world.run(0, Op::Read { length: 1 }, Flags::default()).unwrap_err();
    assert_eq!(failed, Error::Dropped);
}
