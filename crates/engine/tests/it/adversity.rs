//! Every engine with peers that read slowly, stop reading, or die.
use onego_buf::{List, Pool, SegmentMut};
use onego_engine::{AnyEngine, EngineKind, Pump, Wait, now, open};
use onego_testkit::{FrameEvent, Frames};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, LocalPort, Machine, Time};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn pump<M: Machine>(kind: EngineKind, machine: M) -> Pump<AnyEngine, M> {
    let engine = open(kind).unwrap();
    assert_eq!(engine.kind(), kind);
    Pump::new(engine, machine)
}

fn listener(
    kind: EngineKind,
    mut machine: Frames,
    addr: SocketAddr,
) -> (Pump<AnyEngine, Frames>, SocketAddr) {
    machine.listen(7, addr);
    let mut pump = pump(kind, machine);
    let end = now() + PATIENCE;
    loop {
        pump.turn(Wait::Poll).unwrap();
        match pump.machine_mut().events.pop_front() {
            Some(FrameEvent::Listening(_, Ok(addr))) => return (pump, addr),
            // The kernel destroys a ring asynchronously, and its sockets a moment later.
            Some(FrameEvent::Listening(_, Err(error))) if error.kind() == io::ErrorKind::AddrInUse => {
                assert!(now() < end, "{addr} stays in use");
                std::thread::sleep(Duration::from_millis(1));
                pump.machine_mut().listen(7, addr);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn narrow_peer(addr: SocketAddr) -> TcpStream {
    let family = rustix::net::AddressFamily::INET;
    let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 1).unwrap();
    rustix::net::connect(&socket, &addr).unwrap();
    TcpStream::from(socket)
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

/// All sends are short or find the socket full, and receives find few bytes or none.
fn a_slow_reader_gets_every_byte(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::echo(), any_port());
    let mut peer = narrow_peer(addr);
    peer.set_nonblocking(true).unwrap();
    let want: Vec<u8> = (0..40u8).flat_map(|i| framed(&bytes(usize::from(i) * 4001, i))).collect();
    let (mut written, mut echo) = (0, Vec::new());
    let mut piece = [0; 3001];
    let end = now() + PATIENCE;
    while echo.len() < want.len() {
        assert!(now() < end, "{} of {} bytes", echo.len(), want.len());
        let next = &want[written..want.len().min(written + 4003)];
        if !next.is_empty() {
            match peer.write(next) {
                Ok(n) => written += n,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        server.turn(Wait::Poll).unwrap();
        match peer.read(&mut piece) {
            Ok(n) => echo.extend_from_slice(&piece[..n]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert!(echo == want);
    let stats = server.stats();
    assert_eq!((stats.received_bytes, stats.sent_bytes), (want.len() as u64, want.len() as u64));
}

/// A machine that always has more to send.
#[derive(Default)]
struct Source {
    conns: ConnTable<()>,
    actions: VecDeque<Action>,
    pool: Option<Pool>,
    taken: u64,
    ended: bool,
}

impl Source {
    const MESSAGE: usize = 64 << 10;
}

impl Machine for Source {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.actions.pop_front()
    }
    fn listening(&mut self, _: Time, _: ListenerId, _: io::Result<SocketAddr>) {}
    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        None
    }
    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}
    fn disconnected(&mut self, _: Time, conn: ConnId, _: Disconnect) {
        self.conns.remove(conn);
        self.ended = true;
    }
    fn landing(&mut self, _: ConnId) -> Landing {
        Landing::shared(4096)
    }
    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}
    fn received(&mut self, _: Time, _: ConnId, _: onego_buf::Segment) {}
    fn transmit(&mut self, _: Time, _: ConnId, out: &mut List, limit: usize) {
        let pool = self.pool.get_or_insert_with(|| Pool::new(64 << 20));
        while out.len() < limit {
            out.push(pool.get(Self::MESSAGE).freeze());
            self.taken += Self::MESSAGE as u64;
        }
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn timeout(&mut self, _: Time) {}
}

fn a_peer_that_stops_reading_stops_the_machine(kind: EngineKind) {
    let listener = TcpListener::bind(any_port()).unwrap();
    let mut source = Source::default();
    let conn = source.conns.insert(());
    source.actions.push_back(Action::Connect {
        conn,
        addr: listener.local_addr().unwrap(),
        local: LocalPort::Any,
    });
    let mut pump = pump(kind, source);
    let mut peer = None;
    for _ in 0..3 {
        // It is at rest when a turn reaches its time limit without a send.
        loop {
            let (sent, end) = (pump.stats().sent_bytes, now() + Duration::from_millis(50));
            pump.turn(Wait::Until(end)).unwrap();
            if sent > 0 && pump.stats().sent_bytes == sent && now() >= end {
                break;
            }
        }
        let waits = pump.stats().waits;
        let end = now() + Duration::from_millis(50);
        while now() < end {
            pump.turn(Wait::Until(end)).unwrap();
        }
        let stats = pump.stats();
        let out = pump.machine().taken - stats.sent_bytes;
        assert!(stats.waits - waits < 10, "it sleeps while the peer does");
        // One batch waits, and the engine has sent parts of another without reporting it yet.
        assert!(out <= (2 << 20) + Source::MESSAGE as u64, "the driver holds {out} bytes");
        // The peer reads for a while, and the flow continues.
        let peer = peer.get_or_insert_with(|| listener.accept().unwrap().0);
        let mut piece = vec![0; 1 << 20];
        let mut left = 16 << 20;
        peer.set_nonblocking(true).unwrap();
        let end = now() + PATIENCE;
        while left > 0 {
            assert!(now() < end, "timeout: {left} bytes are missing");
            pump.turn(Wait::Poll).unwrap();
            left -= peer.read(&mut piece).unwrap_or(0).min(left);
        }
    }
    drop(peer);
    let end = now() + PATIENCE;
    while !pump.machine().ended {
        assert!(now() < end, "a peer that is gone is noticed");
        pump.turn(Wait::Until(end)).unwrap();
    }
    assert_eq!(pump.connections(), 0);
}

fn clients_reconnect_to_a_server_that_dies_repeatedly(kind: EngineKind) {
    let mut addr = any_port();
    let mut client = pump(kind, Frames::default());
    let end = now() + PATIENCE;
    for round in 0..8u8 {
        let (mut server, at) = listener(kind, Frames::echo(), addr);
        addr = at;
        let conns: Vec<ConnId> = (0..5).map(|_| client.machine_mut().connect(addr)).collect();
        // Too many to finish before the server dies.
        let large = bytes(16 << 20, round);
        for &conn in &conns {
            client.machine_mut().send(conn, bytes(100, round));
            client.machine_mut().send(conn, bytes(300_000, round));
            client.machine_mut().send(conn, large.clone());
        }
        let mut frames = 0;
        while frames < 2 * conns.len() {
            assert!(now() < end, "{frames} frames in round {round}");
            server.turn(Wait::Poll).unwrap();
            client.turn(Wait::Poll).unwrap();
            while let Some(event) = client.machine_mut().events.pop_front() {
                match event {
                    FrameEvent::Frame(_, frame) => {
                        assert!(frame.to_vec() == bytes(frame.len(), round));
                        frames += 1;
                    }
                    FrameEvent::Connected(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        drop(server);
        let mut ended = 0;
        while ended < conns.len() {
            assert!(now() < end, "{ended} connections have ended in round {round}");
            client.turn(Wait::Until(end)).unwrap();
            while let Some(event) = client.machine_mut().events.pop_front() {
                ended += usize::from(matches!(event, FrameEvent::Disconnected(..)));
            }
        }
        assert_eq!((client.connections(), client.machine().places_out), (0, 0));
    }
}

/// Connections that send a little and are reset before the server can react.
fn peers_that_die_at_once_leave_nothing(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::echo(), any_port());
    for i in 0..300usize {
        let mut peer = TcpStream::connect(addr).unwrap();
        peer.write_all(&framed(&bytes(i * 100, 1))[..i * 50]).unwrap();
        if i % 3 == 0 {
            sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        }
        if i % 2 == 0 {
            server.turn(Wait::Poll).unwrap();
        }
    }
    let end = now() + PATIENCE;
    let mut ended = 0;
    let mut accepted = 0;
    while ended < accepted || accepted < 300 {
        assert!(now() < end, "{accepted} connections, {ended} have ended");
        server.turn(Wait::Poll).unwrap();
        while let Some(event) = server.machine_mut().events.pop_front() {
            match event {
                FrameEvent::Accepted(..) => accepted += 1,
                FrameEvent::Disconnected(..) => ended += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((server.connections(), server.machine().places_out), (0, 0));
}

on_each_engine![
    a_slow_reader_gets_every_byte,
    a_peer_that_stops_reading_stops_the_machine,
    clients_reconnect_to_a_server_that_dies_repeatedly,
    peers_that_die_at_once_leave_nothing,
];
