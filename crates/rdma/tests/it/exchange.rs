//! Exchanges between two ends, as the verbs specify.

use crate::support::{End, config, filled, noise, pair, rng, scattered, settle};
use onego_buf::{List, SegmentMut};
use onego_rdma::iwarp::{Config, Established, Event, ReadyToReceive};
use onego_rdma::{CompletedWork, Completion, Memory, PostError, QueuePair, Remote, SendFlags, Status};
use rand::Rng as _;

fn configs() -> Vec<Config> {
    let mut all = Vec::new();
    for crc in [false, true] {
        for (enhanced, peer_to_peer) in [
            (false, None),
            (true, None),
            (true, Some(ReadyToReceive { write: true, ..Default::default() })),
            (true, Some(ReadyToReceive { read: true, ..Default::default() })),
            (true, Some(ReadyToReceive { send: true, ..Default::default() })),
        ] {
            all.push(Config { crc, enhanced, peer_to_peer, ..config() });
        }
    }
    all
}

fn received(completion: &Completion) -> (u64, Vec<u8>) {
    let CompletedWork::Received { buffer, len, .. } = &completion.done else {
        panic!("not a receive: {completion:?}")
    };
    assert_eq!(completion.status, Status::Success);
    (completion.id, buffer[..*len].to_vec())
}

#[test]
fn private_data_and_depths_are_exchanged() {
    let mut rng = rng(1);
    let theirs = Config { ird: 3, ord: 50, ..config() };
    let (mut client, mut server) = (End::client(config(), b"hello"), End::server(theirs));
    settle(&mut client, &mut server, &mut rng);
    server.connection.accept(b"welcome").unwrap();
    settle(&mut client, &mut server, &mut rng);
    let established = |ird, ord, private_data: &[u8]| Established {
        private_data: private_data.to_vec(),
        crc: false,
        ird,
        ord,
    };
    assert_eq!(client.events, [Event::Established(established(50, 3, b"welcome"))]);
    assert_eq!(
        server.events,
        [Event::Requested(b"hello".to_vec()), Event::Established(established(3, 50, b""))]
    );
}

#[test]
fn messages_arrive_in_order_in_every_mode() {
    for (seed, config) in configs().into_iter().enumerate() {
        let mut rng = rng(seed as u64);
        let theirs = Config { peer_to_peer: None, ..config.clone() };
        let (mut client, mut server) = pair(config.clone(), theirs, &mut rng);
        if config.peer_to_peer.is_some() {
            // The server may send first.
            client.connection.post_receive(77, filled(10, 0)).unwrap();
            server.connection.post_send(0, b"first".to_vec().into(), SendFlags::default()).unwrap();
            settle(&mut client, &mut server, &mut rng);
            assert_eq!(received(&client.completions.remove(0)), (77, b"first".to_vec()));
        }
        let sizes = [0, 1, 3, 4, 1023, 1025, 4096, 70_000, 200_001];
        let messages: Vec<Vec<u8>> = sizes.map(|len| noise(len, &mut rng)).to_vec();
        for (id, message) in messages.iter().enumerate() {
            server.connection.post_receive(id as u64, filled(message.len() + 3, 0xee)).unwrap();
            let bytes = scattered(message, &mut rng);
            client.connection.post_send(100 + id as u64, bytes, SendFlags::default()).unwrap();
        }
        settle(&mut client, &mut server, &mut rng);
        assert_eq!((client.fault(), server.fault()), (None, None));
        let arrived: Vec<_> = server
            .completions
            .iter()
            .filter(|done| matches!(done.done, CompletedWork::Received { .. }))
            .collect();
        for (id, message) in messages.iter().enumerate() {
            assert_eq!(received(arrived[id]), (id as u64, message.clone()));
        }
        let ids: Vec<u64> = client.completions.iter().map(|done| done.id).collect();
        assert_eq!(ids, (100..100 + sizes.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn writes_land_in_their_region_and_nowhere_else() {
    for (seed, config) in configs().into_iter().enumerate() {
        let mut rng = rng(100 + seed as u64);
        let (mut client, mut server) = pair(config.clone(), config, &mut rng);
        let key = client.connection.register_at(Memory::Sink(filled(500_000, 0xaa)), 1 << 40).unwrap();
        client.connection.post_receive(9, filled(100, 0)).unwrap();
        client.connection.post_send(0, b"go".to_vec().into(), SendFlags::default()).unwrap();
        server.connection.post_receive(0, filled(100, 0)).unwrap();
        let bytes = noise(300_001, &mut rng);
        let to = Remote { key, offset: (1 << 40) + 1001 };
        server.connection.post_write(1, scattered(&bytes, &mut rng), to).unwrap();
        let flags = SendFlags { invalidate: Some(key), solicited: true };
        server.connection.post_send(2, b"written".to_vec().into(), flags).unwrap();
        settle(&mut client, &mut server, &mut rng);
        assert_eq!((client.fault(), server.fault()), (None, None));
        assert!(
            server.completions.iter().any(|done| matches!(done.done, CompletedWork::Written) && done.id == 1)
        );
        let done = client.completions.pop().unwrap();
        assert_eq!(received(&done), (9, b"written".to_vec()));
        let CompletedWork::Received { solicited: true, invalidated: Some((of, Memory::Sink(sink))), .. } =
            done.done
        else {
            panic!("no memory came back: {done:?}");
        };
        assert_eq!((of, &sink[1001..301_002]), (key, &*bytes));
        assert!(sink[..1001].iter().chain(&sink[301_002..]).all(|byte| *byte == 0xaa));
        assert!(matches!(client.connection.invalidate(key), Err(PostError::UnknownKey(_))));
    }
}

#[test]
fn bulk_is_received_many_segments_at_a_time_and_in_place() {
    const LEN: usize = 1 << 20;
    let mut rng = rng(7);
    let ours = Config { foresee_writes: true, ..config() };
    let (mut client, mut server) = pair(ours.clone(), ours, &mut rng);
    let bytes = noise(LEN, &mut rng);
    let from = client.connection.register(Memory::Source(scattered(&bytes, &mut rng))).unwrap();
    let to = client.connection.register(Memory::Sink(filled(LEN, 0))).unwrap();
    server.connection.post_receive(0, filled(100, 0)).unwrap();
    client.connection.post_send(0, b"go".to_vec().into(), SendFlags::default()).unwrap();
    for id in 0..4 {
        let part = Remote { offset: id * LEN as u64 / 4, ..from };
        server.connection.post_read(id, filled(LEN / 4, 0), part).unwrap();
    }
    server.connection.post_write(9, scattered(&bytes, &mut rng), to).unwrap();

    let mut receives = [0, 0];
    while client.connection.has_output() || server.connection.has_output() {
        server.incoming.extend(client.output(usize::MAX).to_vec());
        receives[0] += std::iter::from_fn(|| (server.feed(usize::MAX) > 0).then_some(())).count();
        client.incoming.extend(server.output(usize::MAX).to_vec());
        receives[1] += std::iter::from_fn(|| (client.feed(usize::MAX) > 0).then_some(())).count();
    }

    let read = server.completions.iter().flat_map(|completion| match &completion.done {
        CompletedWork::Read(sink) => sink.to_vec(),
        _ => Vec::new(),
    });
    assert!(read.eq(bytes.iter().copied()), "the reads returned wrong bytes");
    let Some(Memory::Sink(sink)) = client.connection.invalidate(to.key).unwrap() else {
        panic!("expected a sink");
    };
    assert!(*sink == bytes, "the write stored wrong bytes");
    // The first receive was for small messages, because the kind of data was unknown.
    assert!(receives.iter().all(|n| *n <= 10), "{receives:?} receives for a megabyte");
    for end in [&client, &server] {
        assert!(end.landed > LEN * 7 / 10, "only {} bytes were received in place", end.landed);
    }
}

/// Carries all bytes in both directions, in as few receives as possible.
fn carry_whole(client: &mut End, server: &mut End) {
    while client.connection.has_output() || server.connection.has_output() {
        server.incoming.extend(client.output(usize::MAX).to_vec());
        while server.feed(usize::MAX) > 0 {}
        client.incoming.extend(server.output(usize::MAX).to_vec());
        while client.feed(usize::MAX) > 0 {}
    }
}

#[test]
fn wrongly_predicted_segments_are_parsed_correctly() {
    const LEN: usize = 1 << 20;
    const ROUNDS: usize = 12;
    const AREA: usize = 80_000;
    let mut rng = rng(11);
    let (mut client, mut server) = pair(config(), config(), &mut rng);
    let bytes = noise(LEN, &mut rng);
    let from = client.connection.register(Memory::Source(scattered(&bytes, &mut rng))).unwrap();
    let to = server.connection.register(Memory::Sink(filled(ROUNDS * AREA, 0))).unwrap();
    for id in 0..200 {
        server.connection.post_receive(id, filled(3000, 0)).unwrap();
    }
    client.connection.post_send(0, b"go".to_vec().into(), SendFlags::default()).unwrap();
    carry_whole(&mut client, &mut server);
    for round in 0..ROUNDS {
        for id in 0..8 {
            server.connection.post_read(1000 + id, filled(LEN, 0), from).unwrap();
        }
        client.incoming.extend(server.output(usize::MAX).to_vec());
        while client.feed(usize::MAX) > 0 {}
        // Messages go between the segments of responses, and messages and writes between them, at other places in each
        // round.
        let mut all = Vec::new();
        for step in 0.. {
            let out = client.output(1).to_vec();
            if out.is_empty() {
                break;
            }
            all.extend(out);
            if round > 0 && step % (10 * round as u64 + 7) == 5 {
                let message = noise(2500, &mut rng).into();
                if round % 2 == 0 {
                    client.connection.post_send(step, message, SendFlags::default()).unwrap();
                }
                if step == 5 {
                    let at = Remote { offset: round as u64 * AREA as u64, ..to };
                    client.connection.post_write(step, scattered(&bytes[..AREA], &mut rng), at).unwrap();
                }
            }
        }
        server.incoming.extend(all);
        while server.feed(usize::MAX) > 0 {}
        assert_eq!(server.fault(), None);
        let reads: Vec<_> = server
            .completions
            .drain(..)
            .filter_map(|completion| match completion.done {
                CompletedWork::Read(sink) => Some(sink),
                _ => None,
            })
            .collect();
        assert!(reads.len() == 8 && reads.iter().all(|sink| **sink == *bytes), "round {round}");
    }
    let Some(Memory::Sink(sink)) = server.connection.invalidate(to.key).unwrap() else {
        panic!("expected a sink");
    };
    let (first, rest) = sink.split_at(AREA);
    assert!(first.iter().all(|byte| *byte == 0), "nothing was written there");
    assert!(rest.chunks(AREA).all(|area| area == &bytes[..AREA]), "a write is lost");
}

#[test]
fn predictions_never_touch_written_bytes() {
    const PART: usize = 300_000;
    let mut rng = rng(12);
    let ours = Config { foresee_writes: true, ..config() };
    let (mut client, mut server) = pair(ours.clone(), ours, &mut rng);
    let to = client.connection.register(Memory::Sink(filled(4 * PART, 0))).unwrap();
    client.connection.post_receive(0, filled(2000, 0)).unwrap();
    server.connection.post_receive(0, filled(100, 0)).unwrap();
    client.connection.post_send(0, b"go".to_vec().into(), SendFlags::default()).unwrap();
    carry_whole(&mut client, &mut server);
    // From the last part to the first: each is followed by one that has arrived.
    let bytes = noise(4 * PART, &mut rng);
    for part in [3, 2, 1, 0] {
        let (start, end) = (part * PART, (part + 1) * PART);
        let at = Remote { offset: start as u64, ..to };
        server.connection.post_write(part as u64, scattered(&bytes[start..end], &mut rng), at).unwrap();
    }
    server.connection.post_send(9, noise(2000, &mut rng).into(), SendFlags::default()).unwrap();
    carry_whole(&mut client, &mut server);
    let Some(Memory::Sink(sink)) = client.connection.invalidate(to.key).unwrap() else {
        panic!("expected a sink");
    };
    assert!(*sink == bytes, "something that was written is written over");
}

#[test]
fn writes_to_a_withdrawn_sink_are_dropped() {
    for seed in 0..200 {
        let mut rng = rng(seed);
        let (mut client, mut server) = pair(config(), config(), &mut rng);
        server.connection.post_receive(1, filled(100, 0)).unwrap();
        let Remote { key, .. } = server.connection.register(Memory::Sink(filled(100_000, 1))).unwrap();
        let bytes = scattered(&noise(100_000, &mut rng), &mut rng);
        client.connection.post_write(2, bytes, Remote { key, offset: 0 }).unwrap();
        // At any time: before the write, within a segment of it, after it.
        let withdrawn = loop {
            let moved = crate::support::carry(&mut client, &mut server, &mut rng);
            if moved == 0 || rng.random_bool(0.1) {
                break server.connection.withdraw(key).unwrap();
            }
        };
        let Some(Memory::Sink(sink)) = withdrawn else { panic!("nothing is out") };
        assert_eq!(sink.len(), 100_000);
        let flags = SendFlags { invalidate: (seed % 2 == 0).then_some(key), solicited: false };
        client.connection.post_send(3, List::from(b"written".to_vec()), flags).unwrap();
        settle(&mut client, &mut server, &mut rng);
        assert_eq!((client.fault(), server.fault()), (None, None));
        let done = server.completions.pop().expect("the message comes");
        assert_eq!(received(&done), (1, b"written".to_vec()));
        let invalidated = server.connection.invalidate(key);
        match seed % 2 {
            0 => assert!(matches!(invalidated, Err(PostError::UnknownKey(_)))),
            _ => assert!(matches!(invalidated, Ok(Some(Memory::Sink(empty))) if empty.is_empty())),
        }
        // Afterwards it is gone.
        client.connection.post_write(4, List::from(vec![1]), Remote { key, offset: 0 }).unwrap();
        settle(&mut client, &mut server, &mut rng);
        assert!(server.fault().is_some());
    }
}

#[test]
fn reads_beyond_what_the_peer_allows_wait_and_others_pass_them() {
    for (seed, config) in configs().into_iter().enumerate() {
        let mut rng = rng(200 + seed as u64);
        let config = Config { ird: 2, ord: 2, fpdu: 1020, ..config };
        let (mut client, mut server) = pair(config.clone(), config, &mut rng);
        let bytes = noise(100_000, &mut rng);
        let source = Memory::Source(scattered(&bytes, &mut rng));
        let key = client.connection.register_at(source, 7).unwrap();
        client.connection.post_send(0, List::new(), SendFlags::default()).unwrap();
        server.connection.post_receive(0, filled(0, 0)).unwrap();
        settle(&mut client, &mut server, &mut rng);
        server.completions.clear();
        for id in 0..10 {
            let sink = filled(10_000 - id as usize, 0);
            server.connection.post_read(id, sink, Remote { key, offset: 7 + id * 10_000 }).unwrap();
        }
        client.connection.post_receive(1, filled(10, 0)).unwrap();
        server.connection.post_send(50, b"passes".to_vec().into(), SendFlags::default()).unwrap();
        server.output(usize::MAX).segments().for_each(|piece| client.incoming.extend(piece.iter()));
        assert_eq!(server.completions.len(), 1, "the message is sent while the reads wait");
        settle(&mut client, &mut server, &mut rng);
        assert_eq!((client.fault(), server.fault()), (None, None));
        for (id, done) in server.completions[1..].iter().enumerate() {
            let CompletedWork::Read(sink) = &done.done else { panic!("not a read: {done:?}") };
            assert_eq!((done.id, done.status), (id as u64, Status::Success));
            assert_eq!(**sink, bytes[id * 10_000..][..10_000 - id]);
        }
        assert_eq!(server.completions.len(), 11);
    }
}

#[test]
fn a_rejected_client_gets_private_data_and_all_memory() {
    let mut rng = rng(5);
    for config in configs() {
        let (mut client, mut server) = (End::client(config.clone(), b"me"), End::server(config));
        client.connection.post_receive(3, filled(5, 1)).unwrap();
        client.connection.register_at(Memory::Sink(filled(5, 2)), 0).unwrap();
        client.connection.post_send(4, List::new(), SendFlags::default()).unwrap();
        settle(&mut client, &mut server, &mut rng);
        server.connection.reject(b"no room").unwrap();
        settle(&mut client, &mut server, &mut rng);
        let rejected = Event::Rejected(b"no room".to_vec());
        assert_eq!(client.events, [rejected, Event::Fault(onego_rdma::iwarp::Error::Rejected)]);
        assert!(client.completions.iter().all(|done| done.status == Status::Flushed));
        let [receive, region, send] = &client.completions[..] else { panic!("{:?}", client.completions) };
        assert!(
            matches!(&receive.done, CompletedWork::Received { buffer, len: 0, .. } if **buffer == [1; 5])
        );
        assert!(matches!(&region.done, CompletedWork::Released(_, Memory::Sink(sink)) if **sink == [2; 5]));
        assert!(matches!((&send.done, send.id), (CompletedWork::Sent, 4)));
        let over = client.connection.post_receive(1, SegmentMut::zeroed(1)).unwrap_err();
        assert_eq!(over.error, PostError::Over);
    }
}

#[test]
fn queues_are_as_deep_as_configured() {
    let mut rng = rng(6);
    let config = Config { send_queue: 2, receive_queue: 1, regions: 1, ..config() };
    let (mut client, mut server) = pair(config.clone(), config, &mut rng);
    let send = |end: &mut End| end.connection.post_send(0, List::new(), SendFlags::default());
    send(&mut client).unwrap();
    send(&mut client).unwrap();
    let full = PostError::QueueFull { queue: "send queue", depth: 2 };
    assert_eq!(send(&mut client).unwrap_err().error, full);
    server.connection.post_receive(0, filled(1, 0)).unwrap();
    let refused = server.connection.post_receive(1, filled(1, 7)).unwrap_err();
    assert_eq!(refused.error, PostError::QueueFull { queue: "receive queue", depth: 1 });
    assert_eq!(*refused.given, [7]);
    let key = server.connection.register_at(Memory::Sink(filled(1, 0)), 0).unwrap();
    let refused = server.connection.register_at(Memory::Sink(filled(2, 0)), 0).unwrap_err();
    assert_eq!(refused.error, PostError::QueueFull { queue: "table of regions", depth: 1 });
    assert!(matches!(server.connection.invalidate(key), Ok(Some(Memory::Sink(_)))));
    assert!(matches!(server.connection.invalidate(key), Err(PostError::UnknownKey(_))));
    // Unpolled completions still count.
    let mut sent = List::new();
    client.connection.transmit(&mut sent, usize::MAX);
    assert_eq!(send(&mut client).unwrap_err().error, full);
    client.collect();
    send(&mut client).unwrap();
}

#[test]
fn large_payload_lands_in_place() {
    let mut rng = rng(7);
    let (mut client, mut server) = pair(config(), config(), &mut rng);
    let key = server.connection.register_at(Memory::Sink(filled(1 << 20, 0)), 0).unwrap();
    for _ in 0..10 {
        let bytes = noise(1 << 20, &mut rng);
        client.connection.post_write(0, bytes.into(), Remote { key, offset: 0 }).unwrap();
    }
    while client.connection.has_output() {
        server.incoming.extend(client.output(1 << 20).to_vec());
        while server.feed(usize::MAX) > 0 {}
    }
    // The first segments arrive before it is known that they are large.
    assert!(server.shared < (256 << 10) + 250 * (1 << 10), "{} bytes were copied", server.shared);
    assert_eq!(server.fault(), None);
}

fn operations(stream: &[u8]) -> Vec<(u8, bool)> {
    let mut operations = Vec::new();
    let mut left = stream;
    while let [high, low, first, second, ..] = left {
        operations.push((second & 0xf, first & 0x40 != 0));
        let len = 2 + usize::from(u16::from_be_bytes([*high, *low]));
        left = &left[len.next_multiple_of(4) + 4..];
    }
    operations
}

#[test]
fn a_response_alternates_with_messages_but_not_with_writes() {
    let mut rng = rng(8);
    let config = Config { fpdu: 1020, ..config() };
    let (mut client, mut server) = pair(config.clone(), config, &mut rng);
    let key = server.connection.register_at(Memory::Source(noise(300_000, &mut rng).into()), 0).unwrap();
    let sink = client.connection.register_at(Memory::Sink(filled(3000, 0)), 0).unwrap();
    for id in 0..2 {
        client.connection.post_read(id, filled(300_000, 0), Remote { key, offset: 0 }).unwrap();
    }
    server.incoming.extend(client.output(usize::MAX).to_vec());
    server.feed(usize::MAX);
    let mut sent = operations(&server.output(1).to_vec());
    for id in 0..2 {
        server.connection.post_send(id, b"message".to_vec().into(), SendFlags::default()).unwrap();
    }
    server.connection.post_write(2, noise(3000, &mut rng).into(), Remote { key: sink, offset: 0 }).unwrap();
    server.connection.post_send(3, b"behind".to_vec().into(), SendFlags::default()).unwrap();
    sent.extend(operations(&server.output(usize::MAX).to_vec()));

    // Runs of one operation each, with the write as its own run.
    let runs: Vec<(u8, usize)> = sent.chunk_by(|a, b| a.0 == b.0).map(|run| (run[0].0, run.len())).collect();
    let (answer, write, send) = (2, 0, 3);
    // 256 KiB are 258 segments of 1020 bytes. The write waits for the end of a response.
    assert_eq!(runs, [(answer, 258), (send, 2), (answer, 42 + 300), (write, 3), (send, 1)]);
}

#[test]
fn a_client_without_replies_nudges_its_server() {
    let mut rng = rng(9);
    let (mut client, mut server) = (End::client(config(), b""), End::server(config()));
    settle(&mut client, &mut server, &mut rng);
    server.connection.accept(b"").unwrap();
    settle(&mut client, &mut server, &mut rng);
    server.connection.post_receive(0, filled(10, 0)).unwrap();
    let deadline = client.connection.deadline().expect("no bytes from the server yet");
    client.connection.timeout(deadline);
    assert!(!client.connection.has_output(), "there is no output yet");

    client.connection.post_send(0, b"question".to_vec().into(), SendFlags::default()).unwrap();
    let overlooked = client.output(usize::MAX).to_vec();
    client.connection.timeout(crate::support::NOW);
    assert!(!client.connection.has_output(), "too early");
    client.connection.timeout(client.connection.deadline().unwrap());
    let nudge = client.output(usize::MAX).to_vec();
    assert_eq!(operations(&nudge), [(0, true)]);
    assert_eq!(nudge.len(), 20);

    server.incoming.extend(overlooked.iter().chain(&nudge));
    server.connection.post_send(0, b"answer".to_vec().into(), SendFlags::default()).unwrap();
    client.connection.post_receive(0, filled(10, 0)).unwrap();
    settle(&mut client, &mut server, &mut rng);
    assert_eq!((client.fault(), server.fault()), (None, None));
    assert_eq!(received(client.completions.last().unwrap()), (0, b"answer".to_vec()));
    assert_eq!(client.connection.deadline(), None);
}

#[test]
fn a_server_selects_one_ready_to_receive_indication() {
    let some = |write, read, send| ReadyToReceive { write, read, send };
    for (offered, allowed, [ird, ord]) in [
        (ReadyToReceive::ANY, None, [0x80, 0x80]),
        (some(false, true, true), None, [0x80, 0x40]),
        (some(false, false, true), None, [0xc0, 0]),
        (ReadyToReceive::ANY, Some(some(false, true, false)), [0x80, 0x40]),
    ] {
        let mut rng = rng(10);
        let ours = Config { peer_to_peer: Some(offered), ..config() };
        let (mut client, mut server) =
            (End::client(ours, b""), End::server(Config { peer_to_peer: allowed, ..config() }));
        settle(&mut client, &mut server, &mut rng);
        server.connection.accept(b"").unwrap();
        let reply = server.output(usize::MAX).to_vec();
        assert_eq!([reply[20], reply[22]], [ird, ord]);
        client.incoming.extend(reply);
        settle(&mut client, &mut server, &mut rng);
        client.connection.post_receive(0, filled(1, 0)).unwrap();
        server.connection.post_send(0, b"x".to_vec().into(), SendFlags::default()).unwrap();
        settle(&mut client, &mut server, &mut rng);
        assert_eq!(client.completions.len(), 1, "the server may send first");
    }
}

#[test]
fn returned_memory_makes_room() {
    let mut rng = rng(11);
    let config = Config { send_queue: 1, receive_queue: 1, regions: 1, ..config() };
    let (mut client, mut server) = pair(config.clone(), config, &mut rng);
    for round in 0..5 {
        let key = server.connection.register_at(Memory::Sink(filled(10, 0)), 0).unwrap();
        server.connection.post_receive(round, filled(10, 0)).unwrap();
        let flags = SendFlags { invalidate: Some(key), solicited: false };
        client.connection.post_send(round, b"round".to_vec().into(), flags).unwrap();
        settle(&mut client, &mut server, &mut rng);
        assert_eq!((client.fault(), server.fault()), (None, None));
        assert_eq!(received(&server.completions.pop().unwrap()), (round, b"round".to_vec()));
        let key = client.connection.register_at(Memory::Source(b"source".to_vec().into()), 0).unwrap();
        server.connection.post_read(round, filled(6, 0), Remote { key, offset: 0 }).unwrap();
        settle(&mut client, &mut server, &mut rng);
        let done = server.completions.pop().unwrap().done;
        assert!(matches!(&done, CompletedWork::Read(sink) if **sink == *b"source"), "{done:?}");
        assert!(matches!(client.connection.invalidate(key), Ok(Some(Memory::Source(_)))));
    }
}

#[test]
fn the_ready_to_receive_read_needs_no_negotiated_depth() {
    let mut rng = rng(12);
    let ready = ReadyToReceive { read: true, ..ReadyToReceive::default() };
    let config = Config { ird: 0, ord: 0, peer_to_peer: Some(ready), ..config() };
    let (mut client, mut server) = pair(config.clone(), config, &mut rng);
    client.connection.post_receive(0, filled(1, 0)).unwrap();
    server.connection.post_send(0, b"x".to_vec().into(), SendFlags::default()).unwrap();
    settle(&mut client, &mut server, &mut rng);
    assert_eq!((client.fault(), server.fault(), client.completions.len()), (None, None, 1));
    let from = Remote { key: onego_rdma::Key(1), offset: 0 };
    let refused = client.connection.post_read(0, filled(1, 0), from).unwrap_err();
    assert_eq!(refused.error, PostError::NoReads);
}
