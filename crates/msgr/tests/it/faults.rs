//! Connection faults: each ends the connection with an error that names the responsible party, and nothing is lost
//! silently.

use crate::support::*;
use onego_buf::{List, Segment};
use onego_msgr::auth;
use onego_msgr::encoding::Encode;
use onego_msgr::types::EntityName;
use onego_msgr::types::kind;
use onego_msgr::{Blame, Connection, Error, Event, Keepalive, Limits, Message, NoPlacer, Tag, features};
use onego_wire::{Time, Writer};
use std::time::Duration;

const BANNER_LEN: usize = 26;
const HELLO_LEN: usize = 32 + 36 + 4;

/// Returns a complete message with all four segments, as sent by the client.
fn whole_message(client: &mut Connection) -> Vec<u8> {
    let mut message = message(1, 70, 350);
    message.middle = Some(Segment::from(pattern(5, 30)));
    client.send(message);
    output(client)
}

#[test]
fn every_flipped_bit_of_a_message_is_detected() {
    let good = whole_message(&mut ready().0);
    let late_status = good.len() - 13;
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (_, mut server) = ready();
        deliver_whole(&mut server, &bytes);
        if bit / 8 == late_status && bit % 8 >= 4 {
            // The other nibble of the late status is reserved and ignored.
            assert!(matches!(&events(&mut server)[..], [Event::Message(_)]));
            continue;
        }
        let error = fault(&mut server);
        assert!(matches!(error, Error::Corrupt(_)), "bit {bit}: {error}");
        assert_eq!(error.blame(), Blame::Transport);
    }
}

#[test]
fn a_corrupt_handshake_ends_in_a_fault_or_waits_for_more() {
    // Everything that each end of a handshake sends.
    let (mut client, mut server) = (client(client_config(), target()), server(server_config()));
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    while client.has_output() || server.has_output() {
        let bytes = output(&mut client);
        deliver_whole(&mut server, &bytes);
        to_server.extend(bytes);
        let bytes = output(&mut server);
        deliver_whole(&mut client, &bytes);
        to_client.extend(bytes);
    }
    for at in 0..to_server.len().max(to_client.len()) {
        for (good, of_server) in [(&to_server, true), (&to_client, false)] {
            let mut bytes = good.clone();
            let Some(byte) = bytes.get_mut(at) else { continue };
            *byte ^= 0x80;
            let mut end = if of_server {
                crate::support::server(server_config())
            } else {
                crate::support::client(client_config(), target())
            };
            deliver_whole(&mut end, &bytes);
            if at >= BANNER_LEN {
                assert!(matches!(fault(&mut end), Error::Corrupt(_)), "byte {at}");
            } else {
                // The banner has no checksum. Possible outcomes are an unknown feature or a longer wait.
                let events = events(&mut end);
                assert!(
                    events.iter().all(|event| matches!(event, Event::Ready(_) | Event::Fault(_))),
                    "byte {at}: {events:?}"
                );
            }
        }
    }
}

#[test]
fn a_truncated_message_waits_for_more() {
    let bytes = whole_message(&mut ready().0);
    for len in 0..bytes.len() {
        let (_, mut server) = ready();
        deliver_whole(&mut server, &bytes[..len]);
        assert!(events(&mut server).is_empty());
        server.closed();
        assert!(events(&mut server).is_empty());
    }
}

#[test]
fn payload_over_its_limit_is_discarded_as_it_arrives() {
    for step in [1000, 1 << 20] {
        let mut config = server_config();
        config.limits = DISCARDING;
        let (mut client, mut server, ..) = ready_with(client_config(), config);
        discards([&mut client, &mut server], step);
    }
}

#[test]
fn a_length_over_its_limit_is_refused_on_sight() {
    let limits = Limits { control: 1000, front: 100, middle: 50, data: 200, unpacked: u32::MAX, discard: 0 };
    let cases: [(u8, &[u32], &str, u64); 4] = [
        (Tag::Ack as u8, &[1001], "control frame", 1001),
        (Tag::Message as u8, &[41, 101], "message front", 101),
        (Tag::Message as u8, &[41, 100, 51], "message middle", 51),
        (Tag::Message as u8, &[41, 100, 50, u32::MAX], "message payload", u32::MAX.into()),
    ];
    for (tag, lens, expected, expected_len) in cases {
        let (_, mut server, ..) = {
            let mut config = server_config();
            config.limits = limits;
            ready_with(client_config(), config)
        };
        // Only the preamble: no memory can have been allocated for the announced lengths.
        deliver_whole(&mut server, &preamble(tag, lens));
        let error = fault(&mut server);
        assert!(
            matches!(error, Error::TooLong { what, len, .. } if what == expected && len == expected_len),
            "{error}"
        );
        assert_eq!(error.blame(), Blame::Peer);
    }
}

#[test]
fn an_invalid_frame_is_refused() {
    let cases: [(Vec<u8>, Error); 6] = [
        (preamble(99, &[8]), Error::UnknownTag(99)),
        (preamble(Tag::Message as u8, &[40, 1]), Error::BadFrame("a message header of the wrong size")),
        (preamble(Tag::Ack as u8, &[8, 8]), Error::BadFrame("several segments instead of one")),
        (preamble(Tag::Message as u8, &[41, 0]), Error::BadFrame("an empty last segment")),
        (frame(Tag::Hello, &[8]), Error::Unexpected { tag: Tag::Hello, state: "exchanging messages" }),
        (
            frame(Tag::SessionReconnectOk, &[0; 8]),
            Error::Unexpected { tag: Tag::SessionReconnectOk, state: "exchanging messages" },
        ),
    ];
    for (bytes, expected) in cases {
        let (_, mut server) = ready();
        deliver_whole(&mut server, &bytes);
        assert_eq!(fault(&mut server), expected);
        assert_eq!(expected.blame(), Blame::Peer);
    }
}

#[test]
fn a_truncated_control_frame_is_refused() {
    for tag in [Tag::Keepalive2, Tag::Keepalive2Ack, Tag::Ack] {
        let (_, mut server) = ready();
        deliver_whole(&mut server, &frame(tag, &[1, 2, 3]));
        assert!(matches!(fault(&mut server), Error::Decode(_)));
    }
}

#[test]
fn a_message_during_the_handshake_is_refused() {
    let mut server = server(server_config());
    let banner = &output(&mut client(client_config(), target()))[..BANNER_LEN];
    deliver_whole(&mut server, banner);
    deliver_whole(&mut server, &preamble(Tag::Message as u8, &[41, 1 << 20]));
    assert!(matches!(fault(&mut server), Error::Unexpected { tag: Tag::Message, .. }));
}

#[test]
fn a_duplicate_message_is_refused() {
    let (mut client, mut server) = ready();
    let bytes = whole_message(&mut client);
    deliver_whole(&mut server, &bytes);
    deliver_whole(&mut server, &bytes);
    assert_eq!(fault(&mut server), Error::OldMessage { seq: 1, last: 1 });
}

#[test]
fn other_protocols_are_distinguished_from_version_1() {
    for (bytes, expected) in
        [(&b"ceph v027abcdefg"[..], Error::Msgr1), (&b"GET / HTTP/1.1\r\n"[..], Error::NotMsgr2)]
    {
        let mut server = server(server_config());
        deliver_whole(&mut server, bytes);
        assert_eq!(fault(&mut server), expected);
    }
}

#[test]
fn a_peer_of_revision_0_or_with_unknown_requirements_is_incompatible() {
    for (supported, required, lacked_here, lacked_there) in [(0u64, 0u64, 0, 1), (3, 2, 2, 0)] {
        let mut banner = b"ceph v2\n\x10\0".to_vec();
        banner.extend(supported.to_le_bytes());
        banner.extend(required.to_le_bytes());
        let mut server = server(server_config());
        deliver_whole(&mut server, &banner);
        let error = fault(&mut server);
        assert_eq!(error, Error::MessengerFeatures { lacked_here, lacked_there });
        assert_eq!(error.blame(), Blame::Mismatch);
    }
}

#[test]
fn a_client_that_lacks_a_required_feature_learns_which() {
    let mut config = server_config();
    config.required |= features::SERVER_REEF;
    let mut old = client_config();
    old.supported &= !(1 << 31);
    let (mut client, mut server) = (client(old, target()), server(config));
    settle(&mut client, &mut server);
    assert_eq!(fault(&mut client), Error::Features { lacked_here: 1 << 31, lacked_there: 0 });
    // The server waits for another identification until the handshake times out.
    assert!(events(&mut server).is_empty() && !server.is_ready());
}

#[test]
fn a_client_leaves_a_server_that_lacks_a_required_feature() {
    let mut config = server_config();
    config.supported &= !(1 << 12);
    let (mut client, mut server) = (client(client_config(), target()), server(config));
    settle(&mut client, &mut server);
    assert_eq!(fault(&mut client), Error::Features { lacked_here: 0, lacked_there: features::OSDREPLYMUX });
}

#[test]
fn an_unintended_peer_is_detected() {
    let mut kind = target();
    kind.kind = EntityName::MON;
    let (mut client, mut server) = (crate::support::client(client_config(), kind), server(server_config()));
    settle(&mut client, &mut server);
    assert_eq!(fault(&mut client), Error::WrongKind { expected: EntityName::MON, found: EntityName::OSD });

    // The same port, but an earlier instance of the OSD: both ends detect it, the server first.
    let mut nonce = target();
    nonce.addr.nonce = 4;
    let (mut client, mut server) =
        (crate::support::client(client_config(), nonce.clone()), crate::support::server(server_config()));
    settle(&mut client, &mut server);
    let Error::WrongPeer { wanted, found } = fault(&mut server) else { panic!() };
    assert_eq!((wanted, found.to_string().as_str()), (nonce.addr, "v2:10.0.0.1:6800/5"));
}

#[test]
fn a_service_refuses_a_client_that_expects_a_monitor() {
    // A server that claims to be a monitor in HELLO only.
    let mut client = client(client_config(), target_of(EntityName::MON));
    let mut monitor = server_config();
    monitor.entity = EntityName::mon(0);
    let mut monitor = server(monitor);
    let banner = output(&mut client);
    deliver_whole(&mut monitor, &banner);
    let answer = output(&mut monitor);
    deliver_whole(&mut client, &answer);
    let request = output(&mut client);

    let mut osd = server(server_config());
    deliver_whole(&mut osd, &banner);
    deliver_whole(&mut osd, &request);
    let refusal = output(&mut osd).split_off(answer.len());
    deliver_whole(&mut client, &refusal);
    let error = fault(&mut client);
    assert!(matches!(&error, Error::Auth(auth::Error::Refused { errno: -13, .. })), "{error}");
    assert!(!osd.is_ready());
}

#[test]
fn an_unknown_method_is_refused_and_another_can_be_tried() {
    let (mut client, mut server) = (client(client_config(), target()), server(server_config()));
    exchange(&mut client, &mut server);
    let hello_and_request = output(&mut client);
    deliver_whole(&mut server, &hello_and_request[..HELLO_LEN]);

    let mut cephx = Writer::new();
    cephx.u32(2);
    vec![2u32, 1].encode(&mut cephx);
    cephx.blob(b"ticket");
    deliver_whole(&mut server, &frame(Tag::AuthRequest, cephx.as_slice()));
    let mut refusal = Writer::new();
    refusal.u32(2);
    refusal.i32(-95);
    vec![1u32].encode(&mut refusal);
    vec![1u32].encode(&mut refusal);
    assert!(output(&mut server).ends_with(&frame(Tag::AuthBadMethod, refusal.as_slice())));
    deliver_whole(&mut server, &hello_and_request[HELLO_LEN..]);
    settle(&mut client, &mut server);
    assert!(client.is_ready() && server.is_ready());
}

#[test]
fn an_old_session_is_reset_and_a_new_one_granted() {
    let (mut client, mut server) = (client(client_config(), target()), server(server_config()));
    exchange(&mut client, &mut server); // banners
    exchange(&mut client, &mut server); // HELLO, authentication
    let last = output(&mut client);
    let (signature, ident) = last.split_at(32 + 32 + 4);
    deliver_whole(&mut server, signature);
    assert!(output(&mut server).is_empty());
    let mut reconnect = Writer::new();
    target().addr.encode(&mut reconnect);
    for field in [11u64, 12, 13, 14, 15] {
        reconnect.u64(field);
    }
    deliver_whole(&mut server, &frame(Tag::SessionReconnect, reconnect.as_slice()));
    assert_eq!(output(&mut server), frame(Tag::SessionReset, &[1]));
    deliver_whole(&mut server, ident);
    assert!(server.is_ready());
}

#[test]
fn an_endless_handshake_is_cut_short() {
    let (mut client, mut server) = (client(client_config(), target()), server(server_config()));
    exchange(&mut client, &mut server);
    deliver_whole(&mut server, &output(&mut client)[..HELLO_LEN]);
    let mut cephx = Writer::new();
    cephx.u32(2);
    cephx.count(0);
    cephx.blob(b"");
    for _ in 0..40 {
        deliver_whole(&mut server, &frame(Tag::AuthRequest, cephx.as_slice()));
    }
    assert!(matches!(fault(&mut server), Error::EndlessHandshake(_)));
}

#[test]
fn a_stalled_handshake_times_out() {
    let mut client = client(client_config(), target());
    let deadline = client.deadline().unwrap();
    assert_eq!(deadline.since(START), Duration::from_secs(10));
    client.timeout(START + Duration::from_secs(9));
    assert!(events(&mut client).is_empty());
    client.timeout(deadline);
    let error = fault(&mut client);
    assert_eq!(error, Error::HandshakeTimeout(Duration::from_secs(10)));
    assert_eq!(error.blame(), Blame::Transport);
}

fn with_keepalive() -> (Connection, Connection) {
    let mut config = client_config();
    config.keepalive = Some(Keepalive { interval: Duration::from_secs(3), timeout: Duration::from_secs(5) });
    let (client, server, ..) = ready_with(config, server_config());
    (client, server)
}

fn at(seconds: u64) -> Time {
    START + Duration::from_secs(seconds)
}

#[test]
fn a_silent_peer_is_probed_and_given_up() {
    let (mut client, _) = with_keepalive();
    assert_eq!(client.deadline(), Some(at(3)));
    client.timeout(at(3));
    assert!(events(&mut client).is_empty());
    assert_eq!(output(&mut client).len(), 32 + 8 + 4);
    assert_eq!(client.deadline(), Some(at(8)));
    client.timeout(at(7));
    assert!(events(&mut client).is_empty());
    client.timeout(at(8));
    let error = fault(&mut client);
    assert_eq!(error, Error::Silent(Duration::from_secs(5)));
    assert_eq!(error.blame(), Blame::Transport);
}

#[test]
fn an_answering_peer_is_kept() {
    let (mut client, mut server) = with_keepalive();
    for round in 1..4 {
        let now = at(round * 4);
        client.timeout(now);
        let question = output(&mut client);
        deliver_whole(&mut server, &question);
        let answer = output(&mut server);
        assert_eq!(answer[32..40], question[32..40], "the stamp is returned");
        assert_eq!(answer[0], Tag::Keepalive2Ack as u8);
        client.received(now, Segment::from(answer), &mut NoPlacer);
        assert_eq!(client.deadline(), Some(now + Duration::from_secs(3)));
    }
    assert!(events(&mut client).is_empty());
}

#[test]
fn a_flood_of_keepalives_is_answered_once() {
    let (_, mut server) = ready();
    for stamp in 0..1000u64 {
        deliver_whole(&mut server, &frame(Tag::Keepalive2, &stamp.to_le_bytes()));
    }
    assert_eq!(output(&mut server), frame(Tag::Keepalive2Ack, &999u64.to_le_bytes()));
}

#[test]
fn acknowledgements_are_accepted_and_change_nothing() {
    let (_, mut server) = ready();
    deliver_whole(&mut server, &frame(Tag::Ack, &1u64.to_le_bytes()));
    assert!(events(&mut server).is_empty() && !server.has_output());
}

#[test]
fn an_aborted_message_returns_its_place() {
    let (mut client, mut server) = ready();
    client.send(message(1, 70, 10_000));
    client.send(message(2, 70, 0));
    let mut out = List::new();
    client.transmit(&mut out, 1);
    let mut aborted = out.to_vec();
    // Like the kernel: zeros for the unsent rest, and the other code word.
    let end = aborted.len();
    aborted[end - 1000..end - 13].fill(0);
    aborted[end - 13] = 0x01;
    let here = end - 5000;
    server.received(START, Segment::copy_from(&aborted[..here]), &mut PlaceFrom(1));
    let mut rest = server.landing().place.unwrap();
    let len = rest.len();
    rest.copy_from_slice(&aborted[here..here + len]);
    server.landed(START, rest, len);
    deliver_whole(&mut server, &aborted[here + len..]);
    deliver_whole(&mut server, &output(&mut client));
    let events = events(&mut server);
    let [Event::Unplaced(header, place), Event::Message(next)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((header.tid, place.len(), next.header.tid, next.header.seq), (1, 10_000, 2, 2));
}

/// Returns a server that has received `here` bytes of a message with a placed payload of 10,000 bytes.
fn half_placed(here: usize) -> Connection {
    let (mut client, mut server) = ready();
    client.send(message(7, 70, 10_000));
    let bytes = output(&mut client);
    server.received(START, Segment::copy_from(&bytes[..here]), &mut PlaceFrom(1));
    server
}

#[test]
fn a_place_is_returned_when_the_connection_is_over() {
    let mut server = half_placed(1000);
    server.closed();
    let events = events(&mut server);
    assert!(
        matches!(&events[..], [Event::Unplaced(header, place)] if header.tid == 7 && place.len() == 10_000)
    );
}

#[test]
fn a_place_held_by_a_receive_is_returned_once_it_has_landed() {
    let mut server = half_placed(1000);
    let rest = server.landing().place.unwrap();
    server.closed();
    assert!(events(&mut server).is_empty());
    server.landed(START, rest, 0);
    let events = events(&mut server);
    assert!(
        matches!(&events[..], [Event::Unplaced(header, place)] if header.tid == 7 && place.len() == 10_000)
    );
}

#[test]
fn a_place_is_returned_before_the_fault_that_made_it_useless() {
    let (mut client, mut server) = ready();
    client.send(message(7, 70, 10_000));
    let mut bytes = output(&mut client);
    bytes[500] ^= 1;
    server.received(START, Segment::from(bytes), &mut PlaceFrom(1));
    let events = events(&mut server);
    let [Event::Unplaced(header, _), Event::Fault(Error::Corrupt("a message's payload"))] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(header.tid, 7);
}

#[test]
fn nothing_is_sent_on_a_connection_that_is_over() {
    let (mut client, _) = ready();
    client.send(message(1, 10, 0));
    client.closed();
    client.send(Message::new(kind::PING, 1, 1, Vec::new()));
    assert!(!client.has_output());
    assert_eq!(client.queued_messages(), 0);
    assert!(output(&mut client).is_empty());
}
