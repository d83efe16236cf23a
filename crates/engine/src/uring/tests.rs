use super::*;
use crate::ring::setup;
use onego_buf::{Segment, SegmentMut};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const MODES: [Mode; 3] = [Mode::Deferred, Mode::Cooperative, Mode::Interrupting];
const TINY: RingSize = RingSize { submissions: 2, completions: 4 };
const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(engine: &mut Uring, what: &str, mut done: impl FnMut(Event) -> Option<T>) -> T {
    let end = clock::now() + PATIENCE;
    loop {
        assert!(clock::now() < end, "timeout waiting for {what}");
        let mut events = Vec::new();
        engine.poll(Wait::Until(clock::now() + Duration::from_millis(10)), &mut events).unwrap();
        if let Some(found) = events.into_iter().find_map(&mut done) {
            return found;
        }
    }
}

fn connections(engine: &mut Uring, count: usize) -> Vec<(SocketId, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let connect = |_| {
        let id = engine.connect(addr, LocalPort::Any).unwrap();
        let peer = listener.accept().unwrap().0;
        until(engine, "a connection", |event| match event {
            Event::Connected { socket, result } if socket == id => Some(result.unwrap()),
            _ => None,
        });
        (id, peer)
    };
    (0..count).map(connect).collect()
}

#[test]
fn a_short_send_is_not_taken_for_complete_during_overflow() {
    const BYTES: usize = 64 << 20;
    for mode in MODES {
        let mut engine = Uring::with(mode, TINY, &setup).unwrap();
        let mut connections = connections(&mut engine, 40);
        let (big, mut reader) = connections.pop().unwrap();
        // All other connections receive at once: more completions than the queue holds.
        for (id, peer) in &mut connections {
            peer.write_all(b"now").unwrap();
            assert!(
                engine
                    .recv(*id, RecvBufs { landing: Landing::shared(100), ahead: None, ..RecvBufs::default() })
                    .is_none()
            );
        }
        let list: List = SegmentMut::zeroed(BYTES).into();
        assert!(engine.send(big, list).is_none());
        // The peer does not read: the socket cannot have taken everything.
        let mut others = 0;
        until(&mut engine, "the other connections' bytes", |event| match event {
            Event::Received(id, received) => {
                assert_eq!(received.result.unwrap(), 3);
                assert!(connections.iter().any(|connection| connection.0 == id));
                others += 1;
                (others == connections.len()).then_some(())
            }
            Event::Sent(_, sent) => panic!("{mode:?}: {:?} is sent, but the peer has not read", sent.result),
            _ => None,
        });
        let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()).unwrap());
        let sent = until(&mut engine, "the end of the send", |event| match event {
            Event::Sent(id, sent) if id == big => Some(sent),
            _ => None,
        });
        assert_eq!((sent.result.unwrap(), sent.rest.len()), (BYTES, 0), "{mode:?}");
        engine.shutdown(big);
        assert_eq!(reading.join().unwrap(), BYTES as u64);
    }
}

#[test]
fn a_send_as_long_as_a_request_may_be_loses_nothing() {
    // The kernel truncates a request to 2 GiB less a page, and treats the rest as the whole request.
    const BYTES: usize = i32::MAX as usize;
    let mut engine = Uring::open().unwrap();
    let (id, mut reader) = connections(&mut engine, 1).remove(0);
    let reading = std::thread::spawn(move || {
        let (mut room, mut read) = (vec![0; 1 << 20], 0);
        while let n @ 1.. = reader.read(&mut room).unwrap() {
            read += n;
        }
        read
    });
    // Untouched pages all share one zero page.
    let mut rest: List = SegmentMut::zeroed(BYTES).into();
    let mut total = 0;
    while !rest.is_empty() {
        assert!(engine.send(id, rest).is_none());
        let sent = until(&mut engine, "the end of the send", |event| match event {
            Event::Sent(_, sent) => Some(sent),
            _ => None,
        });
        total += sent.result.unwrap();
        rest = sent.rest;
        assert_eq!(total + rest.len(), BYTES);
    }
    engine.shutdown(id);
    assert_eq!(reading.join().unwrap(), BYTES);
}

#[test]
fn connections_end_when_completions_are_lost_and_new_ones_work() {
    for mode in MODES {
        let mut engine = Uring::with(mode, RingSize::default(), &setup).unwrap();
        let listening = engine.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut connections = connections(&mut engine, 4);
        for (i, (id, peer)) in connections.iter_mut().enumerate() {
            match i {
                0 => {
                    let list = Segment::from_static(b"whole").into();
                    assert!(engine.send(*id, list).is_none());
                }
                // More than the socket takes.
                1 => assert!(engine.send(*id, SegmentMut::zeroed(32 << 20).into()).is_none()),
                2 => {
                    peer.write_all(b"now").unwrap();
                    let landing = Landing::at(SegmentMut::zeroed(100), 0);
                    assert!(
                        engine.recv(*id, RecvBufs { landing, ahead: None, ..RecvBufs::default() }).is_none()
                    );
                }
                _ => assert!(
                    engine
                        .recv(
                            *id,
                            RecvBufs { landing: Landing::shared(100), ahead: None, ..RecvBufs::default() }
                        )
                        .is_none()
                ),
            }
        }
        engine.ring.enter(Some(Duration::ZERO)).unwrap();
        engine.ring.lose_completions();
        let mut ended = 0;
        until(&mut engine, "the end of all that was asked for", |event| {
            match event {
                Event::Sent(id, sent) => {
                    assert!(sent.result.is_err(), "{id:?}: it is unknown what was sent");
                    ended += 1;
                }
                Event::Received(id, received) => {
                    assert!(received.result.is_err(), "{id:?}: it is unknown what arrived");
                    // A receive into given buffers returns them.
                    let given = id == connections[2].0;
                    assert_eq!(received.bufs.landing.place.is_some(), given);
                    ended += 1;
                }
                _ => {}
            }
            (ended == 4).then_some(())
        });
        for (id, mut peer) in connections {
            engine.close(id);
            // The peer notices, and not only after the socket's remaining bytes have passed for a whole message.
            let _ = peer.read_to_end(&mut Vec::new());
        }
        // The listener continues to work, and so do new connections.
        let mut peer = TcpStream::connect(listening.1).unwrap();
        let id = until(&mut engine, "a new connection", |event| match event {
            Event::Accepted { socket, .. } => Some(socket),
            _ => None,
        });
        assert!(
            engine
                .recv(id, RecvBufs { landing: Landing::shared(100), ahead: None, ..RecvBufs::default() })
                .is_none()
        );
        assert!(engine.send(id, Segment::from_static(b"hello").into()).is_none());
        peer.write_all(b"hi").unwrap();
        let mut got = [0; 5];
        let said = until(&mut engine, "the peer's bytes", |event| match event {
            Event::Received(_, received) => Some(received.result.unwrap()),
            _ => None,
        });
        assert_eq!(said, 2);
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        let waker = engine.waker();
        let thread = std::thread::spawn(move || waker.wake());
        until(&mut engine, "a wake-up", |event| matches!(event, Event::Woken).then_some(()));
        thread.join().unwrap();
    }
}
