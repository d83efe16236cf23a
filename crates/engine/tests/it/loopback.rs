//! Every engine on real sockets, driven by the pump.
use onego_buf::{List, Pool, SegmentMut};
use onego_engine::{AnyEngine, Engine as _, EngineKind, Pump, Spin, Wait, now, open};
use onego_testkit::{FrameEvent, Frames};
use onego_wire::{ConnId, Disconnect, LocalPort};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

type FramesPump = Pump<AnyEngine, Frames>;

const PATIENCE: Duration = Duration::from_secs(120);

fn pump(kind: EngineKind, machine: Frames) -> FramesPump {
    let engine = open(kind).unwrap();
    assert_eq!(engine.kind(), kind);
    Pump::new(engine, machine)
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn run<'a>(pumps: &mut [&mut FramesPump], mut done: impl FnMut(&mut [&mut FramesPump]) -> bool + 'a) {
    let end = now() + PATIENCE;
    while !done(pumps) {
        assert!(now() < end, "timeout");
        let wait = if pumps.len() == 1 { Wait::Until(end) } else { Wait::Poll };
        for pump in pumps.iter_mut() {
            pump.turn(wait).unwrap();
        }
    }
}

fn listener(kind: EngineKind, mut machine: Frames) -> (FramesPump, SocketAddr) {
    machine.listen(7, any_port());
    let mut pump = pump(kind, machine);
    pump.turn(Wait::Forever).expect("an event ends a turn");
    match pump.machine_mut().events.pop_front() {
        Some(FrameEvent::Listening(id, Ok(addr))) if id.0 == 7 => (pump, addr),
        other => panic!("{other:?}"),
    }
}

fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

fn take_frames(pump: &mut FramesPump, to: &mut Vec<(ConnId, List)>) {
    while let Some(event) = pump.machine_mut().events.pop_front() {
        match event {
            FrameEvent::Frame(conn, frame) => to.push((conn, frame)),
            FrameEvent::Connected(..) | FrameEvent::Accepted(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn frames_of_all_sizes_are_echoed(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::echo());
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    let sizes = [0, 1, 250, 4400, 8191, 8192, 65_536, 262_144, 1 << 20, (4 << 20) + 1, 3, 20 << 20, 1];
    for (i, &size) in sizes.iter().enumerate() {
        client.machine_mut().send(conn, bytes(size, i as u8));
    }
    let mut frames = Vec::new();
    run(&mut [&mut server, &mut client], |pumps| {
        take_frames(pumps[1], &mut frames);
        frames.len() == sizes.len()
    });
    for (i, (_, frame)) in frames.iter().enumerate() {
        assert!(frame.to_vec() == bytes(sizes[i], i as u8), "frame {i} of {} bytes", sizes[i]);
    }
    assert_eq!(client.machine().places_out + server.machine().places_out, 0);
    let sent: usize = sizes.iter().map(|size| size + 4).sum();
    assert_eq!(client.stats().sent_bytes, sent as u64);
    assert_eq!(client.stats().received_bytes, sent as u64);
}

fn many_connections_work_side_by_side(kind: EngineKind) {
    const CONNS: usize = 200;
    const ROUNDS: usize = 5;
    let (mut server, addr) = listener(kind, Frames::echo());
    let mut client = pump(kind, Frames::default());
    for i in 0..CONNS {
        let conn = client.machine_mut().connect(addr);
        for round in 0..ROUNDS {
            client.machine_mut().send(conn, bytes(100 + i * 37, round as u8));
        }
    }
    let mut frames = Vec::new();
    run(&mut [&mut server, &mut client], |pumps| {
        take_frames(pumps[1], &mut frames);
        frames.len() == CONNS * ROUNDS
    });
    frames.sort_by_key(|&(conn, _)| conn);
    for (i, of_one) in frames.chunks(ROUNDS).enumerate() {
        for (round, (conn, frame)) in of_one.iter().enumerate() {
            assert_eq!(*conn, of_one[0].0);
            assert_eq!(frame.to_vec(), bytes(100 + i * 37, round as u8));
        }
    }
    assert_eq!(server.connections(), CONNS);
}

fn messages_of_one_turn_share_one_send(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    run(&mut [&mut server, &mut client], |pumps| pumps[1].machine_mut().events.pop_front().is_some());
    let before = client.stats().sends;
    for i in 0..128 {
        client.machine_mut().send(conn, bytes(250, i));
    }
    let mut frames = Vec::new();
    run(&mut [&mut server, &mut client], |pumps| {
        take_frames(pumps[0], &mut frames);
        frames.len() == 128
    });
    assert_eq!(client.stats().sends - before, 1);
    assert!(server.stats().recvs <= 2, "{:?}", server.stats());
}

/// An extra turn would waste system calls, however the bytes are split across the receive memory.
fn a_turn_that_drains_the_socket_leaves_no_work(kind: EngineKind) {
    const FRAMES: usize = 200;
    let (mut server, addr) = listener(kind, Frames::default());
    let mut client = TcpStream::connect(addr).unwrap();
    let burst = framed(&bytes(1000, 3)).repeat(FRAMES);
    let end = now() + PATIENCE;
    for _ in 0..50 {
        client.write_all(&burst).unwrap();
        let is_frame = |event: &&FrameEvent| matches!(event, FrameEvent::Frame(..));
        while server.machine().events.iter().filter(is_frame).count() < FRAMES {
            assert!(now() < end, "timeout");
            server.turn(Wait::Until(end)).unwrap();
        }
        assert_eq!(server.deadline(), None);
        server.machine_mut().events.clear();
    }
}

fn bytes_sent_before_close_arrive(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    run(&mut [&mut server, &mut client], |pumps| {
        pumps[0].connections() == 1 && pumps[1].machine_mut().events.pop_front().is_some()
    });
    // Much more than the socket takes at once, while the server's own message is never read.
    let Some(FrameEvent::Accepted(peer, _)) = server.machine_mut().events.pop_front() else { panic!() };
    server.machine_mut().send(peer, bytes(1 << 20, 9));
    client.machine_mut().deaf = true;
    for i in 0..30 {
        client.machine_mut().send(conn, bytes(1 << 20, i));
    }
    client.machine_mut().close(conn);
    let (mut frames, mut ended) = (0, false);
    run(&mut [&mut server, &mut client], |pumps| {
        while let Some(event) = pumps[0].machine_mut().events.pop_front() {
            match event {
                FrameEvent::Frame(_, frame) => {
                    assert!(frame.to_vec() == bytes(1 << 20, frames));
                    frames += 1;
                }
                FrameEvent::Disconnected(_, Disconnect::Closed) => ended = true,
                other => panic!("{other:?}"),
            }
        }
        ended && pumps[1].connections() == 0
    });
    assert_eq!((frames, client.machine().connections()), (30, 0));
    assert!(client.machine().events.is_empty(), "nothing is delivered after close");
}

fn a_peer_that_does_not_read_is_dropped_after_close(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    server.machine_mut().deaf = true;
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    let pool = Pool::new(64 << 20);
    client.machine_mut().send(conn, pool.get(32 << 20));
    client.machine_mut().send(conn, pool.get(4 << 20));
    run(&mut [&mut server, &mut client], |pumps| pumps[1].machine_mut().events.pop_front().is_some());
    client.machine_mut().close(conn);
    run(&mut [&mut server, &mut client], |pumps| pumps[1].connections() == 0);
    // The engine may wait for the kernel to release the memory.
    run(&mut [&mut server, &mut client], |_| pool.stats().idle_bytes == 4 << 20);
}

fn a_dropped_pump_returns_its_memory(kind: EngineKind) {
    let (_server, addr) = listener(kind, Frames::default());
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    let pool = Pool::new(64 << 20);
    for _ in 0..8 {
        client.machine_mut().send(conn, pool.get(4 << 20));
    }
    run(&mut [&mut client], |pumps| pumps[0].stats().sends > 0);
    drop(client);
    assert_eq!(pool.stats().idle_bytes, 8 * (4 << 20));
}

fn a_pump_may_be_dropped_on_another_thread(kind: EngineKind) {
    let (_server, addr) = listener(kind, Frames::default());
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    client.machine_mut().send(conn, bytes(32 << 20, 1));
    run(&mut [&mut client], |pumps| pumps[0].stats().sends > 0);
    std::thread::spawn(move || drop(client)).join().unwrap();
}

fn a_pump_built_on_one_thread_runs_on_another(kind: EngineKind) {
    let mut machine = Frames::echo();
    machine.listen(0, any_port());
    let mut pump = pump(kind, machine);
    let waker = pump.waker();
    let thread = std::thread::spawn(move || run(&mut [&mut pump], |pumps| pumps[0].machine().wakes > 0));
    waker.wake();
    thread.join().unwrap();
}

fn a_refused_connection_is_reported(kind: EngineKind) {
    let addr = TcpListener::bind(any_port()).unwrap().local_addr().unwrap();
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    run(&mut [&mut client], |pumps| !pumps[0].machine().events.is_empty());
    match client.machine_mut().events.pop_front() {
        Some(FrameEvent::Disconnected(id, Disconnect::Failed(error))) => {
            assert_eq!((id, error.kind()), (conn, io::ErrorKind::ConnectionRefused));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.connections(), 0);
}

/// Connects from a local port as `local` specifies, and returns the port that the server saw.
fn connect_from(kind: EngineKind, local: LocalPort) -> io::Result<u16> {
    let (mut server, addr) = listener(kind, Frames::echo());
    let mut client = pump(kind, Frames::default());
    client.machine_mut().connect_from(local, addr);
    run(&mut [&mut server, &mut client], |pumps| !pumps[1].machine().events.is_empty());
    let local = match client.machine_mut().events.pop_front() {
        Some(FrameEvent::Connected(_, local)) => local,
        Some(FrameEvent::Disconnected(_, Disconnect::Failed(error))) => return Err(error),
        other => panic!("{other:?}"),
    };
    run(&mut [&mut server], |pumps| !pumps[0].machine().events.is_empty());
    match server.machine_mut().events.pop_front() {
        Some(FrameEvent::Accepted(_, peer)) => assert_eq!(peer, local),
        other => panic!("{other:?}"),
    }
    Ok(local.port())
}

fn a_connection_uses_a_reserved_port_on_request(kind: EngineKind) {
    let allowed = capabilities(None).unwrap().effective.contains(CapabilitySet::NET_BIND_SERVICE);
    let is_reserved = |port: u16| (512..1024).contains(&port);
    assert_eq!(connect_from(kind, LocalPort::PreferReserved).map(is_reserved).unwrap(), allowed);
    assert_eq!(connect_from(kind, LocalPort::Reserved).is_ok_and(is_reserved), allowed);
    assert!(connect_from(kind, LocalPort::Any).unwrap() >= 1024);
}

fn an_error_names_the_privilege_for_reserved_ports(kind: EngineKind) {
    let unprivileged = move || {
        // Only of this thread.
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::NET_BIND_SERVICE;
        set_capabilities(None, sets).unwrap();
        assert!(connect_from(kind, LocalPort::PreferReserved).unwrap() >= 1024);
        let error = connect_from(kind, LocalPort::Reserved).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"), "{error}");
    };
    std::thread::spawn(unprivileged).join().unwrap();
}

fn a_reset_is_reported_and_the_place_comes_back(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    let mut peer = TcpStream::connect(addr).unwrap();
    let half = framed(&bytes(1 << 20, 1));
    peer.write_all(&half[..half.len() / 2]).unwrap();
    run(&mut [&mut server], |pumps| pumps[0].stats().received_bytes as usize == half.len() / 2);
    // Closing with unread bytes resets the connection.
    let accepted = server.machine_mut().events.pop_front();
    let Some(FrameEvent::Accepted(conn, _)) = accepted else { panic!("{accepted:?}") };
    server.machine_mut().send(conn, bytes(10, 0));
    server.turn(Wait::Poll).unwrap();
    peer.peek(&mut [0; 1]).unwrap();
    drop(peer);
    run(&mut [&mut server], |pumps| !pumps[0].machine().events.is_empty());
    match server.machine_mut().events.pop_front() {
        Some(FrameEvent::Disconnected(_, Disconnect::Failed(error))) => {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((server.machine().places_out, server.connections()), (0, 0));
}

fn bytes_before_the_end_of_stream_are_delivered(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    for size in [1, 5000, 100_000] {
        let mut peer = TcpStream::connect(addr).unwrap();
        peer.write_all(&framed(&bytes(size, 3))).unwrap();
        drop(peer);
        let mut seen = Vec::new();
        run(&mut [&mut server], |pumps| {
            seen.extend(pumps[0].machine_mut().events.drain(..));
            matches!(seen.last(), Some(FrameEvent::Disconnected(..)))
        });
        let [
            FrameEvent::Accepted(..),
            FrameEvent::Frame(_, frame),
            FrameEvent::Disconnected(_, Disconnect::Closed),
        ] = &seen[..]
        else {
            panic!("{seen:?}")
        };
        assert_eq!(frame.to_vec(), bytes(size, 3));
    }
}

fn a_half_closed_peer_gets_later_bytes(kind: EngineKind) {
    let mut machine = Frames::default();
    machine.keeps_half_closed = true;
    let (mut server, addr) = listener(kind, machine);
    let mut peer = TcpStream::connect(addr).unwrap();
    peer.write_all(&framed(&bytes(100_000, 3))).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut seen = Vec::new();
    run(&mut [&mut server], |pumps| {
        seen.extend(pumps[0].machine_mut().events.drain(..));
        matches!(seen.last(), Some(FrameEvent::HalfClosed(..)))
    });
    let [FrameEvent::Accepted(..), FrameEvent::Frame(..), FrameEvent::HalfClosed(conn)] = seen[..] else {
        panic!("{seen:?}")
    };
    // The end of the stream must not keep the pump awake: that would be thousands of turns.
    let (until, mut turns) = (now() + Duration::from_millis(50), 0);
    while now() < until {
        server.turn(Wait::Until(until)).unwrap();
        turns += 1;
    }
    assert!(turns < 100, "{turns} turns");
    assert_eq!(server.connections(), 1);
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).map(|_| got)
    });
    for n in 0..20 {
        server.machine_mut().send(conn, bytes(1 << 20, n));
        server.turn(Wait::Poll).unwrap();
    }
    server.machine_mut().close(conn);
    run(&mut [&mut server], |pumps| pumps[0].connections() == 0);
    let expected: Vec<u8> = (0..20).flat_map(|n| framed(&bytes(1 << 20, n))).collect();
    assert!(reader.join().unwrap().unwrap() == expected);
}

fn a_peer_that_is_gone_is_noticed_when_something_is_sent(kind: EngineKind) {
    let mut machine = Frames::default();
    machine.keeps_half_closed = true;
    let (mut server, addr) = listener(kind, machine);
    drop(TcpStream::connect(addr).unwrap());
    let mut conn = None;
    run(&mut [&mut server], |pumps| {
        if let Some(FrameEvent::HalfClosed(half)) = pumps[0].machine_mut().events.pop_front() {
            conn = Some(half);
        }
        conn.is_some()
    });
    run(&mut [&mut server], |pumps| {
        let machine = pumps[0].machine_mut();
        machine.send(conn.unwrap(), bytes(100, 0));
        matches!(machine.events.pop_front(), Some(FrameEvent::Disconnected(_, Disconnect::Failed(_))))
    });
    assert_eq!(server.connections(), 0);
}

fn a_machine_that_does_not_receive_stops_its_peer(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    server.machine_mut().deaf = true;
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    let total = 64usize;
    for i in 0..total {
        client.machine_mut().send(conn, bytes(1 << 20, i as u8));
    }
    // The socket is full when no more is sent for some turns and some time.
    let (mut sends, mut turns, mut since) = (0, 0, now());
    run(&mut [&mut server, &mut client], |pumps| {
        let before = std::mem::replace(&mut sends, pumps[1].stats().sends);
        turns = if sends == before { turns + 1 } else { 0 };
        since = if sends == before { since } else { now() };
        turns > 100 && now().since(since) > Duration::from_millis(100)
    });
    assert_eq!(server.stats().received_bytes, 0);
    assert!(client.stats().sent_bytes < 32 << 20, "kernel buffers are not that large: {:?}", client.stats());
    let sends = client.stats().sends;
    let end = now() + Duration::from_millis(20);
    run(&mut [&mut server, &mut client], |_| now() >= end);
    assert_eq!(client.stats().sends, sends, "a full socket is left alone");

    server.machine_mut().resume();
    let mut frames = Vec::new();
    run(&mut [&mut server, &mut client], |pumps| {
        take_frames(pumps[0], &mut frames);
        frames.len() == total
    });
}

fn bytes_arriving_one_by_one_are_parsed(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::echo());
    let mut peer = TcpStream::connect(addr).unwrap();
    peer.set_nodelay(true).unwrap();
    let frame = framed(b"one byte at a time");
    for byte in &frame {
        peer.write_all(&[*byte]).unwrap();
        let received = server.stats().received_bytes;
        run(&mut [&mut server], |pumps| pumps[0].stats().received_bytes > received);
    }
    run(&mut [&mut server], |pumps| pumps[0].stats().sent_bytes == frame.len() as u64);
    let mut echo = vec![0; frame.len()];
    peer.read_exact(&mut echo).unwrap();
    assert_eq!(echo, frame);
}

fn ten_listeners_get_ports_of_their_own(kind: EngineKind) {
    let mut machine = Frames::default();
    for i in 0..10 {
        machine.listen(i, any_port());
    }
    let mut server = pump(kind, machine);
    server.turn(Wait::Poll).unwrap();
    let mut ports = Vec::new();
    for i in 0..10 {
        match server.machine_mut().events.pop_front() {
            Some(FrameEvent::Listening(id, Ok(addr))) if id.0 == i => ports.push(addr.port()),
            other => panic!("{other:?}"),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() == 10 && ports[0] != 0, "{ports:?}");
    let _peers: Vec<_> = ports.iter().map(|&port| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    run(&mut [&mut server], |pumps| pumps[0].connections() == 10);
}

fn a_taken_address_is_reported(kind: EngineKind) {
    let (_holder, addr) = listener(kind, Frames::default());
    let mut second = Frames::default();
    second.listen(1, addr);
    let mut second = pump(kind, second);
    second.turn(Wait::Poll).unwrap();
    match second.machine_mut().events.pop_front() {
        Some(FrameEvent::Listening(_, Err(error))) => assert_eq!(error.kind(), io::ErrorKind::AddrInUse),
        other => panic!("{other:?}"),
    }
}

fn no_wake_up_of_ten_thousand_is_lost(kind: EngineKind) {
    let mut pump = pump(kind, Frames::default());
    let waker = pump.waker();
    let (ask, asked) = std::sync::mpsc::sync_channel::<()>(0);
    let thread = std::thread::spawn(move || {
        for i in 0..10_000u32 {
            asked.recv().unwrap();
            // Sometimes before the loop sleeps, sometimes after, sometimes at that moment.
            for _ in 0..i % 97 * 8 {
                std::hint::spin_loop();
            }
            waker.wake();
        }
    });
    for i in 1..=10_000 {
        ask.send(()).unwrap();
        run(&mut [&mut pump], |pumps| pumps[0].machine().wakes == i);
    }
    thread.join().unwrap();
}

fn a_deadline_is_kept_to_the_millisecond(kind: EngineKind) {
    let mut pump = pump(kind, Frames::default());
    // Polls would count as waits.
    pump.set_spin(Spin::Never);
    for micros in [100, 900, 1500, 20_300] {
        let mut best = Duration::MAX;
        // Another program may occupy the processor at any one time, but hardly each time.
        for _ in 0..200 {
            let alarm = now() + Duration::from_micros(micros);
            pump.machine_mut().alarm = Some(alarm);
            let turns = pump.stats().waits;
            run(&mut [&mut pump], |pumps| !pumps[0].machine().alarms.is_empty());
            let at = pump.machine_mut().alarms.pop().unwrap();
            assert!(at >= alarm);
            assert!(pump.stats().waits - turns <= 2, "it slept until then");
            best = best.min(at.since(alarm));
            if best < Duration::from_millis(1) {
                break;
            }
        }
        assert!(best < Duration::from_millis(1), "{micros} us: {best:?} late at best");
    }
}

fn a_turn_ends_when_the_caller_says(kind: EngineKind) {
    let mut pump = pump(kind, Frames::default());
    let start = now();
    pump.turn(Wait::Poll).unwrap();
    assert!(now().since(start) < PATIENCE);
    for spin in [None, Some(Spin::For(Duration::from_millis(1)))] {
        spin.into_iter().for_each(|spin| pump.set_spin(spin));
        let until = now() + Duration::from_millis(5);
        let mut turns = 0;
        while now() < until {
            pump.turn(Wait::Until(until)).unwrap();
            turns += 1;
        }
        // A wait ends early when the process is stopped and continued (signal(7)).
        assert!(turns <= 3, "{turns} turns in 5 ms without an event");
    }
}

fn a_spinning_pump_answers(kind: EngineKind) {
    for spin in [Spin::Adaptive, Spin::For(Duration::from_micros(200))] {
        a_pump_that_spins_answers(kind, spin);
    }
}

fn a_pump_that_spins_answers(kind: EngineKind, spin: Spin) {
    let (mut server, addr) = listener(kind, Frames::echo());
    server.set_spin(spin);
    let peer = std::thread::spawn(move || {
        let mut peer = TcpStream::connect(addr).unwrap();
        let frame = framed(&bytes(300, 1));
        for _ in 0..1000 {
            peer.write_all(&frame).unwrap();
            let mut echo = vec![0; frame.len()];
            peer.read_exact(&mut echo).unwrap();
            assert_eq!(echo, frame);
        }
    });
    run(&mut [&mut server], |pumps| pumps[0].stats().sent_bytes == 1000 * 304);
    peer.join().unwrap();
}

/// Requests sent one by one are answered while the pump tries pauses, and after it has chosen them.
fn a_coalescing_pump_answers(kind: EngineKind) {
    const CLIENTS: usize = 8;
    const FRAMES: usize = 4000;
    let (mut server, addr) = listener(kind, Frames::echo());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            std::thread::spawn(move || {
                let mut peer = TcpStream::connect(addr).unwrap();
                let frame = framed(&bytes(300, 1));
                for _ in 0..FRAMES {
                    peer.write_all(&frame).unwrap();
                    let mut echo = vec![0; frame.len()];
                    peer.read_exact(&mut echo).unwrap();
                    assert_eq!(echo, frame);
                }
            })
        })
        .collect();
    run(&mut [&mut server], |pumps| pumps[0].stats().sent_bytes == (CLIENTS * FRAMES * 304) as u64);
    clients.into_iter().for_each(|client| client.join().unwrap());
}

fn queued_requests_are_submitted_before_a_pause(kind: EngineKind) {
    let mut engine = open(kind).unwrap();
    let listener = TcpListener::bind(any_port()).unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (socket, _) = engine.attach(listener.accept().unwrap().0.into()).unwrap();
    engine.send(socket, SegmentMut::from(bytes(300, 1)).freeze().into());
    let start = now();
    engine.pause(Duration::from_millis(2)).unwrap();
    assert!(now().since(start) >= Duration::from_millis(2));
    peer.set_nonblocking(true).unwrap();
    assert_eq!(peer.peek(&mut [0; 400]).unwrap(), 300);
}

fn segments_are_sent_without_limit_of_their_number(kind: EngineKind) {
    let (mut server, addr) = listener(kind, Frames::default());
    let mut client = pump(kind, Frames::default());
    let conn = client.machine_mut().connect(addr);
    // Every other byte of a block: no two segments are adjacent.
    let block = SegmentMut::from(bytes(10_000, 5)).freeze();
    let frame: List = (0..5000).map(|i| block.slice(2 * i..2 * i + 1)).collect();
    assert_eq!(frame.segments().len(), 5000);
    let want = frame.to_vec();
    client.machine_mut().send(conn, frame);
    let mut frames = Vec::new();
    run(&mut [&mut server, &mut client], |pumps| {
        take_frames(pumps[0], &mut frames);
        !frames.is_empty()
    });
    assert_eq!(frames[0].1.to_vec(), want);
}

on_each_engine![
    frames_of_all_sizes_are_echoed,
    many_connections_work_side_by_side,
    messages_of_one_turn_share_one_send,
    a_turn_that_drains_the_socket_leaves_no_work,
    bytes_sent_before_close_arrive,
    a_peer_that_does_not_read_is_dropped_after_close,
    a_dropped_pump_returns_its_memory,
    a_pump_may_be_dropped_on_another_thread,
    a_pump_built_on_one_thread_runs_on_another,
    a_refused_connection_is_reported,
    a_connection_uses_a_reserved_port_on_request,
    an_error_names_the_privilege_for_reserved_ports,
    a_reset_is_reported_and_the_place_comes_back,
    bytes_before_the_end_of_stream_are_delivered,
    a_half_closed_peer_gets_later_bytes,
    a_peer_that_is_gone_is_noticed_when_something_is_sent,
    a_machine_that_does_not_receive_stops_its_peer,
    bytes_arriving_one_by_one_are_parsed,
    ten_listeners_get_ports_of_their_own,
    a_taken_address_is_reported,
    no_wake_up_of_ten_thousand_is_lost,
    a_deadline_is_kept_to_the_millisecond,
    a_turn_ends_when_the_caller_says,
    a_spinning_pump_answers,
    a_coalescing_pump_answers,
    queued_requests_are_submitted_before_a_pause,
    segments_are_sent_without_limit_of_their_number,
];
