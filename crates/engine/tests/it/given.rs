//! Sockets made by the program: Unix sockets, pairs, and sockets inherited by the process.
use onego_buf::{List, SegmentMut};
use onego_engine::zero_copy::{Counters, Mode, Settings};
use onego_engine::{AnyEngine, EngineKind, Pump, Wait, now, open};
use onego_testkit::{FrameEvent, Frames};
use onego_wire::{ConnId, Disconnect};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type FramesPump = Pump<AnyEngine, Frames>;

const PATIENCE: Duration = Duration::from_secs(60);

/// Larger than a socket takes at once, for places and for shared memory.
const SIZES: [usize; 9] = [0, 1, 250, 8191, 65_536, (1 << 20) + 1, 3, 20 << 20, 1];

fn no_addr() -> SocketAddr {
    "0.0.0.0:0".parse().unwrap()
}

fn pump(kind: EngineKind, machine: Frames) -> FramesPump {
    let engine = open(kind).unwrap();
    assert_eq!(engine.kind(), kind);
    Pump::new(engine, machine)
}

fn run(pumps: &mut [&mut FramesPump], mut done: impl FnMut(&mut [&mut FramesPump]) -> bool) {
    let end = now() + PATIENCE;
    while !done(pumps) {
        assert!(now() < end, "timeout");
        let wait = if pumps.len() == 1 { Wait::Until(end) } else { Wait::Poll };
        pumps.iter_mut().for_each(|pump| pump.turn(wait).unwrap());
    }
}

fn next_event(pump: &mut FramesPump) -> FrameEvent {
    run(&mut [pump], |pumps| !pumps[0].machine().events.is_empty());
    pump.machine_mut().events.pop_front().unwrap()
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onego-given-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn adopted(kind: EngineKind, mut machine: Frames, socket: impl Into<OwnedFd>) -> (FramesPump, SocketAddr) {
    machine.adopt(7, socket);
    let mut pump = pump(kind, machine);
    match next_event(&mut pump) {
        FrameEvent::Listening(id, Ok(addr)) if id.0 == 7 => (pump, addr),
        other => panic!("{other:?}"),
    }
}

fn attached(
    kind: EngineKind,
    mut machine: Frames,
    socket: impl Into<OwnedFd>,
) -> (FramesPump, ConnId, SocketAddr) {
    let conn = machine.attach(socket);
    let mut pump = pump(kind, machine);
    match next_event(&mut pump) {
        FrameEvent::Connected(id, local) if id == conn => (pump, conn, local),
        other => panic!("{other:?}"),
    }
}

/// Sends frames of all sizes to the other side and back.
fn echoed(client: &mut FramesPump, conn: ConnId, server: &mut FramesPump) {
    for (i, &size) in SIZES.iter().enumerate() {
        client.machine_mut().send(conn, bytes(size, i as u8));
    }
    let mut came = 0;
    run(&mut [server, client], |pumps| {
        while let Some(event) = pumps[1].machine_mut().events.pop_front() {
            let FrameEvent::Frame(_, frame) = event else { panic!("{event:?}") };
            assert!(frame.to_vec() == bytes(SIZES[came], came as u8), "frame {came}");
            came += 1;
        }
        came == SIZES.len()
    });
    assert_eq!(client.machine().places_out + server.machine().places_out, 0);
}

fn bytes_through_a_unix_listener_are_echoed(kind: EngineKind) {
    let folder = Folder::new();
    let (mut server, addr) = adopted(kind, Frames::echo(), UnixListener::bind(folder.socket()).unwrap());
    assert_eq!(addr, no_addr());
    for round in 0..3 {
        let stream = UnixStream::connect(folder.socket()).unwrap();
        let (mut client, conn, local) = attached(kind, Frames::default(), stream);
        assert_eq!(local, no_addr());
        echoed(&mut client, conn, &mut server);
        let accepted = server.machine_mut().events.pop_front();
        assert!(matches!(accepted, Some(FrameEvent::Accepted(_, peer)) if peer == no_addr()), "{accepted:?}");
        assert_eq!(server.connections(), 1, "round {round}");
        client.machine_mut().close(conn);
        run(&mut [&mut server, &mut client], |pumps| pumps.iter().all(|pump| pump.connections() == 0));
        let ended = server.machine_mut().events.pop_front();
        assert!(matches!(ended, Some(FrameEvent::Disconnected(_, Disconnect::Closed))), "{ended:?}");
    }
}

fn many_unix_connections_work_side_by_side(kind: EngineKind) {
    let folder = Folder::new();
    let (mut server, _) = adopted(kind, Frames::echo(), UnixListener::bind(folder.socket()).unwrap());
    let mut client = pump(kind, Frames::default());
    for i in 0..100 {
        let conn = client.machine_mut().attach(UnixStream::connect(folder.socket()).unwrap());
        client.machine_mut().send(conn, bytes(100 + i * 997, i as u8));
    }
    let mut sizes = Vec::new();
    run(&mut [&mut server, &mut client], |pumps| {
        sizes.extend(pumps[1].machine_mut().events.drain(..).filter_map(|event| match event {
            FrameEvent::Frame(_, frame) => Some(frame.len()),
            FrameEvent::Connected(..) => None,
            other => panic!("{other:?}"),
        }));
        sizes.len() == 100
    });
    sizes.sort_unstable();
    assert_eq!(sizes, (0..100).map(|i| 100 + i * 997).collect::<Vec<_>>());
}

fn both_ends_of_a_pair_may_be_connections(kind: EngineKind) {
    let (one, other) = UnixStream::pair().unwrap();
    let (mut server, _, _) = attached(kind, Frames::echo(), one);
    let (mut client, conn, _) = attached(kind, Frames::default(), other);
    echoed(&mut client, conn, &mut server);
}

fn sockets_of_tcp_keep_their_addresses(kind: EngineKind) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bound = listener.local_addr().unwrap();
    let (mut server, addr) = adopted(kind, Frames::echo(), listener);
    assert_eq!(addr, bound);
    let stream = TcpStream::connect(addr).unwrap();
    let (ours, duplicate) = (stream.local_addr().unwrap(), stream.try_clone().unwrap());
    let (mut client, conn, local) = attached(kind, Frames::default(), stream);
    assert_eq!(local, ours);
    assert!(sockopt::tcp_nodelay(&duplicate).unwrap());
    assert_eq!(sockopt::tcp_congestion(&duplicate).unwrap(), "reno");
    echoed(&mut client, conn, &mut server);
    let accepted = server.machine_mut().events.pop_front();
    assert!(matches!(accepted, Some(FrameEvent::Accepted(_, peer)) if peer == ours), "{accepted:?}");
}

fn segments_are_sent_without_limit_of_their_number(kind: EngineKind) {
    let (one, other) = UnixStream::pair().unwrap();
    let (mut server, _, _) = attached(kind, Frames::default(), one);
    let (mut client, conn, _) = attached(kind, Frames::default(), other);
    // Every other byte of a block, followed by a large payload: no two segments are adjacent.
    let block = SegmentMut::from(bytes(10_000, 5)).freeze();
    let mut frame: List = (0..5000).map(|i| block.slice(2 * i..2 * i + 1)).collect();
    frame.push(bytes(3 << 20, 6));
    let want = frame.to_vec();
    client.machine_mut().send(conn, frame);
    run(&mut [&mut server, &mut client], |pumps| !pumps[0].machine().events.is_empty());
    match server.machine_mut().events.pop_front() {
        Some(FrameEvent::Frame(_, frame)) => assert!(frame.to_vec() == want),
        other => panic!("{other:?}"),
    }
}

fn sends_copy_without_zero_copy_support(kind: EngineKind) {
    let (one, other) = UnixStream::pair().unwrap();
    let [mut server, mut client] = [Frames::echo(), Frames::default()].map(|machine| {
        let mut engine = open(kind).unwrap();
        engine.set_zero_copy(Settings { mode: Mode::On, ..Settings::default() });
        Pump::new(engine, machine)
    });
    server.machine_mut().attach(one);
    let conn = client.machine_mut().attach(other);
    assert!(matches!(next_event(&mut client), FrameEvent::Connected(..)));
    echoed(&mut client, conn, &mut server);
    assert_eq!([client.stats().zero_copy, server.stats().zero_copy], [Counters::default(); 2]);
}

fn an_unsupported_low_water_mark_delays_nothing(kind: EngineKind) {
    let (one, mut peer) = UnixStream::pair().unwrap();
    let (mut server, conn, _) = attached(kind, Frames::default(), one);
    for round in 0..50 {
        server.machine_mut().set_low_water(conn, 1 << 20);
        server.turn(Wait::Until(now() + Duration::from_micros(10))).unwrap();
        peer.write_all(&framed(&[round])).unwrap();
        let event = next_event(&mut server);
        assert!(matches!(event, FrameEvent::Frame(_, frame) if frame.to_vec() == [round]));
    }
}

fn bytes_sent_before_close_arrive(kind: EngineKind) {
    let (one, mut peer) = UnixStream::pair().unwrap();
    let (mut server, conn, _) = attached(kind, Frames::default(), one);
    for i in 0..5 {
        server.machine_mut().send(conn, bytes(1 << 20, i));
    }
    server.machine_mut().close(conn);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all
    });
    run(&mut [&mut server], |pumps| pumps[0].connections() == 0);
    assert!(reader.join().unwrap() == (0..5).flat_map(|i| framed(&bytes(1 << 20, i))).collect::<Vec<_>>());
    assert_eq!(server.machine().connections(), 0);
}

fn bytes_before_the_end_of_stream_are_delivered(kind: EngineKind) {
    for size in [1, 5000, 100_000] {
        let (one, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(&framed(&bytes(size, 3))).unwrap();
        drop(peer);
        let (mut server, _, _) = attached(kind, Frames::default(), one);
        let event = next_event(&mut server);
        assert!(matches!(event, FrameEvent::Frame(_, frame) if frame.to_vec() == bytes(size, 3)));
        let event = next_event(&mut server);
        assert!(matches!(event, FrameEvent::Disconnected(_, Disconnect::Closed)), "{event:?}");
        assert_eq!((server.connections(), server.machine().places_out), (0, 0));
    }
}

fn a_peer_that_closes_with_bytes_unread_breaks_the_connection(kind: EngineKind) {
    let (one, mut peer) = UnixStream::pair().unwrap();
    let (mut server, conn, _) = attached(kind, Frames::default(), one);
    let half = framed(&bytes(100_000, 1));
    peer.write_all(&half[..half.len() / 2]).unwrap();
    server.machine_mut().send(conn, bytes(10, 0));
    run(&mut [&mut server], |pumps| {
        let stats = pumps[0].stats();
        stats.received_bytes as usize == half.len() / 2 && stats.sends > 0
    });
    // A send may not be reported yet, but its bytes have arrived.
    peer.read_exact(&mut [0; 1]).unwrap();
    drop(peer);
    match next_event(&mut server) {
        FrameEvent::Disconnected(_, Disconnect::Failed(error)) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((server.connections(), server.machine().places_out), (0, 0));
}

fn a_machine_that_does_not_receive_stops_its_peer(kind: EngineKind) {
    let (one, other) = UnixStream::pair().unwrap();
    let mut deaf = Frames::default();
    deaf.deaf = true;
    let (mut server, _, _) = attached(kind, deaf, one);
    let (mut client, conn, _) = attached(kind, Frames::default(), other);
    for i in 0..16 {
        client.machine_mut().send(conn, bytes(1 << 20, i));
    }
    let end = now() + Duration::from_millis(100);
    run(&mut [&mut server, &mut client], |_| now() >= end);
    assert_eq!(server.stats().received_bytes, 0);
    assert!(client.stats().sent_bytes < 8 << 20, "a socket does not take that much: {:?}", client.stats());
    let sends = client.stats().sends;
    let end = now() + Duration::from_millis(20);
    run(&mut [&mut server, &mut client], |_| now() >= end);
    assert_eq!(client.stats().sends, sends, "a full socket is left alone");
    server.machine_mut().resume();
    run(&mut [&mut server, &mut client], |pumps| pumps[0].machine().events.len() == 16);
}

/// A receive stops at descriptors, even with more bytes in the queue.
fn descriptors_that_come_along_hide_nothing(kind: EngineKind) {
    let (one, peer) = UnixStream::pair().unwrap();
    let sent = framed(&bytes(3000, 4));
    for part in sent.chunks(500) {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        let descriptors = [peer.as_fd()];
        assert!(along.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&peer, &[IoSlice::new(part)], &mut along, SendFlags::empty()).unwrap();
    }
    let (mut server, _, _) = attached(kind, Frames::default(), one);
    let event = next_event(&mut server);
    assert!(matches!(event, FrameEvent::Frame(_, frame) if frame.to_vec() == bytes(3000, 4)));
}

fn a_remaining_duplicate_causes_no_events(kind: EngineKind) {
    let (one, mut peer) = UnixStream::pair().unwrap();
    let duplicate = one.try_clone().unwrap();
    let (mut server, conn, _) = attached(kind, Frames::default(), one);
    server.machine_mut().close(conn);
    run(&mut [&mut server], |pumps| {
        // From this side, the peer appears to close as well.
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        pumps[0].connections() == 0
    });
    // The duplicate's bytes wake no turn, and are not attributed to another connection.
    let (other, _peer) = UnixStream::pair().unwrap();
    server.machine_mut().attach(other);
    assert!(matches!(next_event(&mut server), FrameEvent::Connected(..)));
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    drop((duplicate, peer));
    server.turn(Wait::Until(now() + Duration::from_millis(10))).unwrap();
    assert!(server.machine().events.is_empty());
}

fn a_socket_of_the_wrong_kind_is_refused_with_a_reason(kind: EngineKind) {
    let refused = |machine: Frames| {
        let mut pump = pump(kind, machine);
        let event = next_event(&mut pump);
        assert_eq!((pump.connections(), pump.machine().connections()), (0, 0));
        match event {
            FrameEvent::Listening(_, Err(error)) => error,
            FrameEvent::Disconnected(_, Disconnect::Failed(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let adopt = |socket: OwnedFd| {
        let mut machine = Frames::default();
        machine.adopt(0, socket);
        refused(machine)
    };
    let attach = |socket: OwnedFd| {
        let mut machine = Frames::default();
        machine.attach(socket);
        refused(machine)
    };
    let folder = Folder::new();
    let listening = || {
        let path: &Path = &folder.socket();
        let _ = std::fs::remove_file(path);
        OwnedFd::from(UnixListener::bind(path).unwrap())
    };
    let expect = |error: io::Error, kind, reason| {
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(reason), "{error}");
    };
    let datagrams = || OwnedFd::from(UnixDatagram::unbound().unwrap());
    expect(adopt(UnixStream::pair().unwrap().0.into()), io::ErrorKind::InvalidInput, "does not listen");
    expect(adopt(datagrams()), io::ErrorKind::InvalidInput, "SOCK_STREAM");
    expect(attach(datagrams()), io::ErrorKind::InvalidInput, "SOCK_STREAM");
    expect(attach(listening()), io::ErrorKind::NotConnected, "not connected");
    let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    assert_eq!(adopt(file()).raw_os_error(), Some(rustix::io::Errno::NOTSOCK.raw_os_error()));
    assert_eq!(attach(file()).raw_os_error(), Some(rustix::io::Errno::NOTSOCK.raw_os_error()));
}

on_each_engine![
    bytes_through_a_unix_listener_are_echoed,
    many_unix_connections_work_side_by_side,
    both_ends_of_a_pair_may_be_connections,
    sockets_of_tcp_keep_their_addresses,
    segments_are_sent_without_limit_of_their_number,
    sends_copy_without_zero_copy_support,
    an_unsupported_low_water_mark_delays_nothing,
    bytes_sent_before_close_arrive,
    bytes_before_the_end_of_stream_are_delivered,
    a_peer_that_closes_with_bytes_unread_breaks_the_connection,
    a_machine_that_does_not_receive_stops_its_peer,
    descriptors_that_come_along_hide_nothing,
    a_remaining_duplicate_causes_no_events,
    a_socket_of_the_wrong_kind_is_refused_with_a_reason,
];
