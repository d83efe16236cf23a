//! The simulated network, with pumps on it.
use onego_buf::List;
use onego_engine::{Engine, Event, Pump, RecvBufs, Wait};
use onego_testkit::{Faults, FrameEvent, Frames, Node, Sim, SimEngine};
use onego_wire::{ConnId, Disconnect, Landing, LocalPort};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

type FramesPump = Pump<SimEngine, Frames>;

fn ip(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

fn server_addr() -> SocketAddr {
    SocketAddr::new(ip(1), 6800)
}

fn server(sim: &Sim, mut machine: Frames) -> FramesPump {
    machine.listen(0, server_addr());
    Pump::new(sim.engine(ip(1)), machine)
}

fn client(sim: &Sim, n: u8) -> FramesPump {
    Pump::new(sim.engine(ip(n)), Frames::default())
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len).map(|i| ((i as u64 + 1).wrapping_mul(seed * 2 + 0x9e37_79b9) >> 11) as u8).collect()
}

/// A client that does not give up: it has its frames echoed, one after the other, over as many connections as
/// it takes.
struct Caller {
    pump: FramesPump,
    conn: Option<ConnId>,
    next: usize,
    count: usize,
    reconnects: usize,
}

impl Caller {
    fn new(sim: &Sim, n: u8, count: usize) -> Self {
        Self { pump: client(sim, n), conn: None, next: 0, count, reconnects: 0 }
    }

    fn size(&self) -> usize {
        [10, 300, 5_000, 20_000, 300_000][self.next % 5]
    }

    fn done(&self) -> bool {
        self.next == self.count
    }

    fn look(&mut self) {
        while let Some(event) = self.pump.machine_mut().events.pop_front() {
            match event {
                FrameEvent::Frame(conn, frame) if Some(conn) == self.conn => {
                    assert!(frame.to_vec() == bytes(self.size(), self.next as u64));
                    self.next += 1;
                    if !self.done() {
                        self.call();
                    }
                }
                FrameEvent::Disconnected(conn, _) if Some(conn) == self.conn => self.conn = None,
                FrameEvent::Connected(..) => {}
                other => panic!("{other:?}"),
            }
        }
        if self.conn.is_none() && !self.done() {
            self.reconnects += 1;
            self.conn = Some(self.pump.machine_mut().connect(server_addr()));
            self.call();
        }
    }

    fn call(&mut self) {
        let frame = bytes(self.size(), self.next as u64);
        if let Some(conn) = self.conn {
            self.pump.machine_mut().send(conn, frame);
        }
    }
}

/// Three callers against one echo; what it came to.
fn callers(seed: u64, faults: Faults, count: usize) -> (u64, Duration, usize) {
    let mut sim = Sim::new(seed, faults);
    let start = sim.now();
    let mut server = server(&sim, Frames::echo());
    let mut callers: Vec<Caller> = (2..5).map(|n| Caller::new(&sim, n, count)).collect();
    while !callers.iter().all(Caller::done) {
        for caller in &mut callers {
            if caller.conn.is_none() && !caller.done() || !caller.pump.machine().events.is_empty() {
                caller.look();
            }
        }
        let mut nodes: Vec<&mut dyn Node> = vec![&mut server];
        nodes.extend(callers.iter_mut().map(|caller| &mut caller.pump as &mut dyn Node));
        assert!(sim.step(&mut nodes), "nothing happens any more");
        assert!(sim.now().since(start) < Duration::from_secs(86_400), "it takes too long");
    }
    (sim.trace(), sim.now().since(start), callers.iter().map(|caller| caller.reconnects).sum())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let first = callers(7, Faults::harsh(), 20);
    assert_eq!(callers(7, Faults::harsh(), 20), first);
    assert_ne!(callers(8, Faults::harsh(), 20).0, first.0);
}

#[test]
fn everything_arrives_in_the_end_whatever_goes_wrong() {
    let mut reconnects = 0;
    for seed in 0..100 {
        reconnects += callers(seed, Faults::harsh(), 10).2;
        callers(seed, Faults::random(seed), 10);
    }
    assert!(reconnects > 3 * 100, "harsh enough to break connections");
}

/// Both sides open, send and close as they please. [`Frames`] itself checks that it hears of no connection that it
/// has closed, and that bytes come in order.
#[test]
fn connections_may_be_closed_at_any_moment_by_either_side() {
    for seed in 0..60 {
        let mut sim = Sim::new(seed, Faults::random(seed));
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut server = server(&sim, Frames::echo());
        let mut client = client(&sim, 2);
        let mut conns: Vec<ConnId> = Vec::new();
        for i in 0..200 {
            match rng.random_range(0..4) {
                0 => {
                    let conn = client.machine_mut().connect(server_addr());
                    conns.push(conn);
                }
                1 if !conns.is_empty() => {
                    let conn = conns.swap_remove(rng.random_range(0..conns.len()));
                    client.machine_mut().close(conn);
                }
                2 => {
                    let accepted = server.machine_mut().events.drain(..).find_map(|event| match event {
                        FrameEvent::Accepted(conn, _) => Some(conn),
                        _ => None,
                    });
                    if let Some(conn) = accepted {
                        server.machine_mut().close(conn);
                    }
                }
                _ => {
                    for conn in &conns {
                        client.machine_mut().send(*conn, bytes(rng.random_range(0..100_000), i));
                    }
                }
            }
            let pause = Duration::from_micros(rng.random_range(0..10_000));
            sim.run_for(&mut [&mut server, &mut client], pause);
        }
        for conn in conns {
            client.machine_mut().close(conn);
        }
        sim.set_faults(Faults::none());
        sim.heal_all();
        sim.settle(&mut [&mut server, &mut client]);
        for pump in [&server, &client] {
            assert_eq!((pump.connections(), pump.machine().connections()), (0, 0), "seed {seed}");
            assert_eq!(pump.machine().places_out, 0, "seed {seed}");
        }
    }
}

#[test]
fn ragged_streams_break_no_connection() {
    for seed in 0..10 {
        assert_eq!(callers(seed, Faults::ragged(), 10).2, 3);
    }
}

#[test]
fn without_faults_time_is_latency() {
    let mut sim = Sim::new(1, Faults::none());
    let mut server = server(&sim, Frames::echo());
    let mut client = client(&sim, 2);
    sim.settle(&mut [&mut server]);
    let start = sim.now();
    let conn = client.machine_mut().connect(server_addr());
    client.machine_mut().send(conn, vec![1; 100]);
    while !matches!(client.machine().events.back(), Some(FrameEvent::Frame(..))) {
        assert!(sim.step(&mut [&mut server, &mut client]));
    }
    assert_eq!(sim.now().since(start), Duration::from_micros(4 * 50), "two round trips");
}

#[test]
fn connections_come_from_the_ports_that_are_wished_for() {
    let mut sim = Sim::new(1, Faults::none());
    let mut server = server(&sim, Frames::echo());
    let mut client = client(&sim, 2);
    for wish in [LocalPort::Any, LocalPort::Reserved, LocalPort::PreferReserved, LocalPort::Reserved] {
        client.machine_mut().connect_from(wish, server_addr());
    }
    sim.settle(&mut [&mut server, &mut client]);
    let ports = client.machine().events.iter().map(|event| match event {
        FrameEvent::Connected(_, local) => local.port(),
        other => panic!("{other:?}"),
    });
    assert_eq!(ports.collect::<Vec<_>>(), [49_152, 512, 513, 514]);
}

#[test]
fn sockets_of_the_real_world_are_refused() {
    let mut sim = Sim::new(1, Faults::none());
    let mut node = client(&sim, 1);
    let (one, other) = UnixStream::pair().unwrap();
    node.machine_mut().adopt(3, one);
    let conn = node.machine_mut().attach(other);
    sim.settle(&mut [&mut node]);
    match (node.machine_mut().events.pop_front(), node.machine_mut().events.pop_front()) {
        (
            Some(FrameEvent::Listening(listener, Err(listening))),
            Some(FrameEvent::Disconnected(id, Disconnect::Failed(attached))),
        ) => {
            assert_eq!((listener.0, listening.kind()), (3, io::ErrorKind::Unsupported));
            assert_eq!((id, attached.kind()), (conn, io::ErrorKind::Unsupported));
        }
        other => panic!("{other:?}"),
    }
}

/// An open connection between a server and a client, both quiet.
fn connected(sim: &mut Sim, server_machine: Frames) -> (FramesPump, FramesPump, ConnId) {
    let mut server = server(sim, server_machine);
    let mut client = client(sim, 2);
    sim.settle(&mut [&mut server]);
    let conn = client.machine_mut().connect(server_addr());
    sim.settle(&mut [&mut server, &mut client]);
    assert!(matches!(client.machine().events.back(), Some(FrameEvent::Connected(..))));
    client.machine_mut().events.clear();
    server.machine_mut().events.clear();
    (server, client, conn)
}

#[test]
fn a_cut_link_delays_and_loses_nothing() {
    let mut sim = Sim::new(3, Faults::none());
    let (mut server, mut client, conn) = connected(&mut sim, Frames::default());
    sim.cut(ip(1), ip(2));
    for i in 0..10 {
        client.machine_mut().send(conn, bytes(1000, i));
        sim.run_for(&mut [&mut server, &mut client], Duration::from_secs(1));
    }
    assert!(server.machine().events.is_empty());
    sim.heal_all();
    client.machine_mut().send(conn, bytes(1000, 10));
    sim.settle(&mut [&mut server, &mut client]);
    let frames: Vec<Vec<u8>> = (server.machine_mut().events.drain(..))
        .map(|event| match event {
            FrameEvent::Frame(_, frame) => frame.to_vec(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(frames, (0..11).map(|i| bytes(1000, i)).collect::<Vec<_>>());
}

#[test]
fn a_link_may_be_cut_one_way() {
    let mut sim = Sim::new(3, Faults::none());
    let (mut server, mut client, conn) = connected(&mut sim, Frames::echo());
    sim.cut_one_way(ip(1), ip(2));
    client.machine_mut().send(conn, bytes(1000, 0));
    sim.settle(&mut [&mut server, &mut client]);
    assert_eq!((server.stats().sent_bytes, client.stats().received_bytes), (1004, 0));
    sim.heal(ip(2), ip(1));
    sim.settle(&mut [&mut server, &mut client]);
    assert_eq!(client.stats().received_bytes, 1004);
}

#[test]
fn a_connect_over_a_cut_link_times_out() {
    let mut sim = Sim::new(3, Faults::none());
    let mut server = server(&sim, Frames::echo());
    let mut client = client(&sim, 2);
    sim.settle(&mut [&mut server, &mut client]);
    sim.cut(ip(1), ip(2));
    client.machine_mut().connect(server_addr());
    let start = sim.now();
    sim.settle(&mut [&mut server, &mut client]);
    match client.machine_mut().events.pop_front() {
        Some(FrameEvent::Disconnected(_, Disconnect::Failed(error))) => {
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(sim.now().since(start), Faults::none().connect_timeout);
    // The peer answers once the link heals, to one that has given up: it is told so.
    sim.heal_all();
    sim.settle(&mut [&mut server, &mut client]);
    assert_eq!((server.connections(), server.machine().connections()), (0, 0));
}

#[test]
fn a_node_that_dies_resets_its_connections_and_may_come_back() {
    let mut sim = Sim::new(5, Faults::none());
    let (server_pump, mut client, conn) = connected(&mut sim, Frames::echo());
    client.machine_mut().send(conn, bytes(1 << 20, 0));
    sim.run_for(&mut [&mut client], Duration::from_micros(10));
    drop(server_pump);
    sim.settle(&mut [&mut client]);
    match client.machine_mut().events.pop_front() {
        Some(FrameEvent::Disconnected(_, Disconnect::Failed(error))) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        other => panic!("{other:?}"),
    }
    client.machine_mut().connect(server_addr());
    sim.settle(&mut [&mut client]);
    assert!(matches!(
        client.machine_mut().events.pop_front(),
        Some(FrameEvent::Disconnected(_, Disconnect::Failed(error)))
            if error.kind() == io::ErrorKind::ConnectionRefused
    ));
    let mut server = server(&sim, Frames::echo());
    sim.settle(&mut [&mut server]);
    client.machine_mut().connect(server_addr());
    sim.settle(&mut [&mut server, &mut client]);
    assert!(matches!(client.machine_mut().events.pop_front(), Some(FrameEvent::Connected(..))));
}

#[test]
fn a_node_may_lose_its_connections_and_go_on() {
    let mut sim = Sim::new(5, Faults::none());
    let (mut server, mut client, _) = connected(&mut sim, Frames::echo());
    sim.reset(ip(1));
    sim.settle(&mut [&mut server, &mut client]);
    assert_eq!((server.machine().connections(), client.machine().connections()), (0, 0));
    client.machine_mut().connect(server_addr());
    sim.settle(&mut [&mut server, &mut client]);
    assert_eq!(server.machine().connections(), 1);
}

#[test]
fn what_was_sent_before_close_arrives() {
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Faults::ragged());
        let (mut server, mut client, conn) = connected(&mut sim, Frames::default());
        for i in 0..5 {
            client.machine_mut().send(conn, bytes(200_000, i));
        }
        client.machine_mut().close(conn);
        sim.settle(&mut [&mut server, &mut client]);
        let events = &server.machine().events;
        assert_eq!(events.len(), 6, "seed {seed}: {events:?}");
        assert!(matches!(events.back(), Some(FrameEvent::Disconnected(_, Disconnect::Closed))));
        assert_eq!((server.connections(), client.connections()), (0, 0));
    }
}

#[test]
fn a_machine_that_takes_nothing_stops_its_peer() {
    let mut sim = Sim::new(5, Faults::none());
    let (mut server, mut client, conn) = connected(&mut sim, Frames::default());
    server.machine_mut().deaf = true;
    client.machine_mut().send(conn, bytes(8 << 20, 0));
    sim.settle(&mut [&mut server, &mut client]);
    assert_eq!(client.stats().sent_bytes as usize, Faults::none().window);
    server.machine_mut().resume();
    sim.settle(&mut [&mut server, &mut client]);
    assert!(matches!(server.machine_mut().events.pop_front(), Some(FrameEvent::Frame(..))));
}

#[test]
fn deadlines_are_kept_to_the_nanosecond() {
    let mut sim = Sim::new(5, Faults::none());
    let mut node = client(&sim, 1);
    let alarm = sim.now() + Duration::from_nanos(1_234_567);
    node.machine_mut().alarm = Some(alarm);
    sim.settle(&mut [&mut node]);
    assert_eq!(node.machine().alarms, [alarm]);
}

#[test]
fn a_waker_makes_a_node_run() {
    let mut sim = Sim::new(5, Faults::none());
    let mut node = client(&sim, 1);
    sim.settle(&mut [&mut node]);
    assert!(!sim.step(&mut [&mut node]));
    node.waker().wake();
    assert!(sim.step(&mut [&mut node]));
    assert_eq!(node.machine().wakes, 1);
    assert!(!sim.step(&mut [&mut node]));
}

#[test]
fn the_clock_stops_where_it_is_told() {
    let mut sim = Sim::new(5, Faults::none());
    let until = sim.now() + Duration::from_secs(3);
    sim.run_until(&mut [], until);
    assert_eq!(sim.now(), until);
}

#[test]
fn a_broken_stream_gives_what_had_arrived_and_then_the_error() {
    let mut sim = Sim::new(5, Faults::none());
    let (mut a, mut b) = (sim.engine(ip(1)), sim.engine(ip(2)));
    let (_, addr) = a.listen(SocketAddr::new(ip(1), 0)).unwrap();
    let socket = b.connect(addr, LocalPort::Any).unwrap();
    sim.settle(&mut []);
    let mut events = Vec::new();
    a.poll(Wait::Poll, &mut events).unwrap();
    let Some(&Event::Accepted { socket: accepted, .. }) = events.first() else { panic!("{events:?}") };
    assert_eq!(b.send(socket, List::from(vec![1; 10])).unwrap().result.unwrap(), 10);
    sim.settle(&mut []);
    sim.reset(ip(1));
    let bufs =
        || RecvBufs { landing: Landing::at(vec![0; 100].into(), 0), ahead: None, ..RecvBufs::default() };
    assert_eq!(a.recv(accepted, bufs()).unwrap().result.unwrap(), 10);
    let error = a.recv(accepted, bufs()).unwrap().result.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let error = a.send(accepted, List::from(vec![1])).unwrap().result.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// How often a client receives while `frames` frames come one by one, if `least` bytes are worth a wake-up.
fn receives(frames: usize, least: usize) -> u64 {
    let mut sim = Sim::new(1, Faults::none());
    let mut server = server(&sim, Frames::default());
    let mut client = client(&sim, 2);
    sim.run_for(&mut [&mut server, &mut client], Duration::from_millis(1));
    let conn = client.machine_mut().connect(server_addr());
    sim.run_for(&mut [&mut server, &mut client], Duration::from_millis(10));
    client.machine_mut().set_low_water(conn, least);
    let accepted = server.machine_mut().events.drain(..).find_map(|event| match event {
        FrameEvent::Accepted(conn, _) => Some(conn),
        _ => None,
    });
    let before = client.stats().recvs;
    for n in 0..frames {
        server.machine_mut().send(accepted.unwrap(), bytes(96, n as u64));
        sim.run_for(&mut [&mut server, &mut client], Duration::from_micros(20));
    }
    sim.run_for(&mut [&mut server, &mut client], Duration::from_millis(10));
    let came = client.machine_mut().events.drain(..).filter(|event| matches!(event, FrameEvent::Frame(..)));
    assert_eq!(came.count(), frames, "what is less than a wake-up is worth comes, too");
    client.stats().recvs - before
}

#[test]
fn many_bytes_come_with_few_wake_ups() {
    let frames = 2000;
    let (each, many) = (receives(frames, 1), receives(frames, 16 * 100));
    assert!(each >= frames as u64, "{each} receives");
    assert!(many * 8 < each, "{many} receives instead of {each}");
}
