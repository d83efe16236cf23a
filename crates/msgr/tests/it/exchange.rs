//! Message exchange: messages arrive complete, in order, and where they should.

use crate::support::*;
use onego_buf::{List, Segment};
use onego_msgr::auth::Login;
use onego_msgr::types::EntityName;
use onego_msgr::{Config, Connection, Error, Event, NoPlacer, features};
use proptest::prelude::*;

#[test]
fn both_ends_know_each_other_after_the_handshake() {
    let (mut client, mut server, of_client, of_server) = ready_with(client_config(), server_config());
    assert_eq!((of_client.name, of_client.global_id), (EntityName::osd(3), 4123));
    assert_eq!(of_client.addrs.to_string(), "v2:10.0.0.1:6800/5");
    assert_eq!(of_client.own_addrs.to_string(), "10.0.0.9:0/77");
    assert_eq!((of_server.name, of_server.global_id), (EntityName::client(4123), 4123));
    assert_eq!(of_server.auth_name.unwrap().to_string(), "client.admin");
    assert_eq!(of_server.addrs, of_client.own_addrs);
    assert_eq!((of_client.features, of_server.features), (features::ALL, features::ALL));
    assert!(client.is_ready() && server.is_ready());
    assert!(!client.has_output() && !server.has_output());
    assert!(events(&mut client).is_empty() && events(&mut server).is_empty());
}

#[test]
fn the_handshake_may_be_cut_anywhere() {
    for step in 1..100 {
        let (mut client, mut server) = (client(client_config(), target()), server(server_config()));
        while client.has_output() || server.has_output() {
            let bytes = output(&mut client);
            deliver(&mut server, &bytes, &mut NoPlacer, || step);
            let bytes = output(&mut server);
            deliver(&mut client, &bytes, &mut NoPlacer, || step);
        }
        assert!(client.is_ready() && server.is_ready(), "pieces of {step} bytes");
    }
}

#[test]
fn a_monitor_assigns_a_global_id_to_a_client_without_one() {
    let mut config = server_config();
    config.entity = EntityName::mon(0);
    for (known, given) in [(0, 9000), (55, 55)] {
        let mut target = target();
        (target.kind, target.login) = (EntityName::MON, Login::unproved("admin", true, known));
        let (mut client, mut server) = (client(client_config(), target), server(config.clone()));
        settle(&mut client, &mut server);
        for end in [&mut client, &mut server] {
            let events = events(end);
            let [Event::Ready(peer)] = &events[..] else { panic!("{events:?}") };
            assert_eq!(peer.global_id, given);
        }
    }
}

#[test]
fn messages_queued_during_the_handshake_follow_it() {
    let (mut client, mut server) = (client(client_config(), target()), server(server_config()));
    client.send(message(1, 100, 0));
    server.send(message(2, 100, 0));
    assert_eq!((client.queued_messages(), client.queued_bytes()), (1, 100));
    settle(&mut client, &mut server);
    for (end, tid) in [(&mut client, 2), (&mut server, 1)] {
        let events = events(end);
        assert!(matches!(&events[..], [Event::Ready(_), Event::Message(m)] if m.header.tid == tid));
        assert_eq!((end.queued_messages(), end.queued_bytes()), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn messages_arrive_complete_and_in_order_however_they_are_cut(
        plans in plans(),
        cuts in prop::collection::vec(prop_oneof![1..64usize, 1..5000usize, 1..300_000usize], 1..50),
        place_from in prop_oneof![Just(1), 1..5000usize, Just(usize::MAX)],
        limit in 1..100_000usize,
        from_client in any::<bool>(),
    ) {
        let (client, server) = ready();
        let (mut from, mut to) = if from_client { (client, server) } else { (server, client) };
        carried([&mut from, &mut to], &plans, &cuts, limit, place_from)?;
    }
}

#[test]
fn every_message_acknowledges_received_messages() {
    let (mut client, mut server) = ready();
    for tid in 0..3 {
        client.send(message(tid, 10, 0));
    }
    settle(&mut client, &mut server);
    server.send(message(9, 10, 0));
    settle(&mut client, &mut server);
    let events = events(&mut client);
    assert!(matches!(&events[..], [Event::Message(m)] if (m.header.seq, m.header.ack_seq) == (1, 3)));
}

fn transmitted(connection: &mut Connection, limit: usize) -> List {
    let mut out = List::new();
    connection.transmit(&mut out, limit);
    out
}

#[test]
fn messages_without_payload_are_sent_as_one_piece() {
    let (mut client, _) = ready();
    for tid in 0..40 {
        client.send(message(tid, 200, 0));
    }
    let out = transmitted(&mut client, 1 << 20);
    assert_eq!(out.len(), 40 * (32 + 45 + 200 + 13));
    assert!(out.segments().len() <= 2, "{out:?}");
}

#[test]
fn a_payload_is_sent_in_place_and_a_tiny_one_with_the_headers() {
    let (mut client, _) = ready();
    let data = Segment::from(pattern(0, 4096));
    for tid in 0..20 {
        let mut message = message(tid, 200, 0);
        message.data = data.clone().into();
        client.send(message);
    }
    let out = transmitted(&mut client, 1 << 20);
    assert_eq!(out.segments().filter(|piece| piece.as_ptr() == data.as_ptr()).count(), 20);
    // A run of headers before, between and after the payloads; a block of memory ends in at most one of them.
    assert!(out.segments().len() <= 20 + 21 + 1, "{out:?}");

    let (mut client, _) = ready();
    for tid in 0..20 {
        client.send(message(tid, 200, 100));
    }
    assert!(transmitted(&mut client, 1 << 20).segments().len() <= 2);
}

#[test]
fn messages_encoded_into_the_queue_keep_their_order_among_others() {
    let (mut client, mut server) = ready();
    let version = |tid: u64| Versions { handle: tid, newest: tid ^ 7, oldest: 1 };
    let mut sent = 0;
    for batch in [1, 700, 30, 5000] {
        for _ in 0..batch {
            match sent % 3 {
                0 => client.send(message(sent, sent as usize % 2000, 10)),
                _ => client.send_payload(sent, &version(sent)),
            }
            sent += 1;
        }
        // Each batch may leave some queued, but the last sends all.
        let out = transmitted(&mut client, if batch == 5000 { usize::MAX } else { 20_000 });
        deliver_whole(&mut server, &out.to_vec());
    }
    for (tid, event) in (0..sent).zip(events(&mut server)) {
        let Event::Message(mut got) = event else { panic!("{event:?}") };
        assert_eq!((got.header.tid, got.header.seq), (tid, tid + 1));
        match tid % 3 {
            0 => assert_eq!(got.front, message(tid, tid as usize % 2000, 0).front),
            _ => assert_eq!(got.decode::<Versions>(), Ok(version(tid))),
        }
    }
    assert_eq!((client.queued_messages(), client.queued_bytes()), (0, 0));
}

#[test]
fn an_idle_connection_holds_no_pool_memory() {
    let config = client_config();
    let pool = config.pool.clone();
    let (mut client, _, _, _) = ready_with(config, server_config());
    client.send(message(1, 200, 100));
    let out = transmitted(&mut client, 1 << 20);
    let while_sent = pool.stats();
    drop(out);
    assert_eq!(pool.stats().idle_bytes - while_sent.idle_bytes, 16 << 10);
    let blocks = pool.stats().allocated;
    assert_eq!(pool.stats().idle_bytes, blocks * (16 << 10), "every block was returned");
}

#[test]
fn checksums_of_fronts_and_data_can_be_left_out_by_both_ends() {
    let without = |config: Config| Config { data_crc: false, ..config };
    let (mut client, mut server, _, _) = ready_with(without(client_config()), without(server_config()));
    client.send(message(1, 200, 5000));
    let mut bytes = output(&mut client);
    assert_eq!(bytes[bytes.len() - 12..], [0xff; 12]);
    bytes[1000] ^= 1;
    deliver_whole(&mut server, &bytes);
    let events = events(&mut server);
    let [Event::Message(got)] = &events[..] else { panic!("{events:?}") };
    assert_ne!(payload(got), message(1, 200, 5000).data.to_vec(), "the corruption is undetected");

    let (mut client, mut server, _, _) = ready_with(without(client_config()), server_config());
    client.send(message(1, 200, 5000));
    exchange(&mut client, &mut server);
    let events = crate::support::events(&mut server);
    assert!(matches!(&events[..], [Event::Fault(Error::Corrupt(_))]), "{events:?}");
}

#[test]
fn the_limit_bounds_the_output_of_one_call() {
    let (mut client, mut server) = ready();
    for tid in 0..10 {
        client.send(message(tid, 100, 4096));
    }
    let frame = 32 + 45 + 100 + 4096 + 13;
    assert_eq!(transmitted(&mut client, 1).len(), frame);
    assert_eq!(transmitted(&mut client, frame + 1).len(), 2 * frame);
    assert_eq!((client.queued_messages(), client.queued_bytes()), (7, 7 * 4196));
    settle(&mut client, &mut server);
    assert_eq!((client.queued_messages(), client.queued_bytes()), (0, 0));
}

#[test]
fn small_messages_stay_in_receive_memory() {
    let (mut client, mut server) = ready();
    for tid in 0..128 {
        client.send(message(tid, 250, 4096));
    }
    let block = Segment::from(output(&mut client));
    server.received(START, block.clone(), &mut NoPlacer);
    let within = block.as_ptr_range();
    for event in events(&mut server) {
        let Event::Message(message) = event else { panic!("{event:?}") };
        assert!(within.contains(&message.front.as_ptr()));
        assert_eq!(message.data.segments().len(), 1);
        assert!(message.data.segments().all(|piece| within.contains(&piece.as_ptr())));
    }
}

#[test]
fn the_rest_of_a_placed_payload_lands_in_its_place() {
    let (mut client, mut server) = ready();
    let large = 1 << 20;
    client.send(message(1, 100, large));
    client.send(message(2, 100, large));
    client.send(message(3, 100, 100));
    let bytes = output(&mut client);
    let head = 32 + 45 + 100;

    let ahead = server.landing();
    assert!(ahead.place.is_none() && ahead.ahead >= 256 << 10);
    let here = head + 5000;
    server.received(START, Segment::copy_from(&bytes[..here]), &mut PlaceFrom(1));
    let landing = server.landing();
    let mut rest = landing.place.unwrap();
    assert_eq!(rest.len(), large - 5000, "available bytes are copied, the rest is received");
    assert!(landing.ahead <= 4 << 10, "the next payload should not be read ahead");
    rest.copy_from_slice(&bytes[here..head + large]);
    let place = rest.as_ptr();
    server.landed(START, rest, large - 5000);

    let frame = head + large + 13;
    let ahead = server.landing().ahead;
    assert!(ahead >= 13 + head, "one receive brings the epilogue and the next header");
    server.received(START, Segment::copy_from(&bytes[head + large..frame + head + 1]), &mut PlaceFrom(1));
    let first = events(&mut server);
    let [Event::Message(first)] = &first[..] else { panic!("{first:?}") };
    let placed = first.placed.as_ref().unwrap();
    assert_eq!(placed.as_ptr().wrapping_add(5000), place, "nothing was moved");
    assert_eq!(payload(first), pattern(2, large));

    let landing = server.landing();
    let mut rest = landing.place.unwrap();
    assert_eq!(rest.len(), large - 1);
    rest.copy_from_slice(&bytes[frame + head + 1..frame + head + large]);
    server.landed(START, rest, large - 1);
    server.received(START, Segment::copy_from(&bytes[frame + head + large..]), &mut PlaceFrom(1));
    assert_eq!(events(&mut server).len(), 2);
    let landing = server.landing();
    assert!(landing.place.is_none() && landing.ahead >= 256 << 10, "a small message resumes full read-ahead");
}

#[test]
fn a_rest_of_less_than_a_page_is_not_worth_a_landing() {
    let (mut client, mut server) = ready();
    client.send(message(1, 100, 100_000));
    let bytes = output(&mut client);
    server.received(START, Segment::copy_from(&bytes[..bytes.len() - 1000]), &mut PlaceFrom(1));
    let landing = server.landing();
    assert!(landing.place.is_none());
    assert!(landing.ahead >= 1000);
}

#[test]
fn a_paused_connection_requests_nothing() {
    let (mut client, mut server) = ready();
    server.pause(START, true);
    let landing = server.landing();
    assert!(landing.place.is_none() && landing.ahead == 0);
    server.pause(START, false);
    client.send(message(1, 10, 10));
    settle(&mut client, &mut server);
    assert_eq!(events(&mut server).len(), 1);
}
