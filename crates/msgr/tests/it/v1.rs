//! Version 1 of the protocol between both our ends: handshake, authentication, messages, corruption.

use crate::support::{
    PlaceFrom, START, Versions, carried, client_config, deliver, deliver_whole, events, fault, message,
    output, pattern, payload, plans, settle,
};
use onego_buf::Segment;
use onego_msgr::auth::{
    self, AuthName, Authority, Caps, Credentials, Entropy, Gate, Key, Keyring, Lifetimes, Login, Principal,
    mode, service,
};
use onego_msgr::types::EntityName;
use onego_msgr::{Blame, Config, Connection, Error, Event, Keepalive, Limits, NoPlacer, Target, features};
use onego_wire::Writer;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BANNER_LEN: usize = 9;
const ADDR_LEN: usize = 136;
const CONNECT_LEN: usize = 33;
/// Size of tag, header and footer, in bytes.
const AROUND: usize = 54 + 21;

fn server_config(entity: EntityName) -> Config {
    Config { entity, addrs: "v1:10.0.0.1:6800/5".parse().unwrap(), ..crate::support::server_config() }
}

fn target(kind: u8) -> Target {
    Target { addr: "v1:10.0.0.1:6800/5".parse().unwrap(), ..crate::support::target_of(kind) }
}

fn client() -> Connection {
    crate::support::client(client_config(), target(EntityName::OSD))
}

fn server() -> Connection {
    crate::support::server(server_config(EntityName::osd(3)))
}

fn ready_with(client_config: Config, server_config: Config) -> (Connection, Connection) {
    let (mut client, mut server) = (
        crate::support::client(client_config, target(EntityName::OSD)),
        crate::support::server(server_config),
    );
    settle(&mut client, &mut server);
    for end in [&mut client, &mut server] {
        let events = events(end);
        assert!(matches!(&events[..], [Event::Ready(_)]), "{events:?}");
    }
    (client, server)
}

fn ready() -> (Connection, Connection) {
    ready_with(client_config(), server_config(EntityName::osd(3)))
}

#[test]
fn an_osd_and_its_client_know_each_other_after_the_handshake() {
    let (mut client, mut server) = (client(), server());
    settle(&mut client, &mut server);
    let (of_client, of_server) = (events(&mut client), events(&mut server));
    let [Event::Ready(of_client)] = &of_client[..] else { panic!("{of_client:?}") };
    let [Event::Ready(of_server)] = &of_server[..] else { panic!("{of_server:?}") };
    assert_eq!((of_client.name.kind, of_client.global_id), (EntityName::OSD, 4123));
    assert_eq!(of_client.addrs.to_string(), "v1:10.0.0.1:6800/5");
    assert_eq!((of_server.name, of_server.global_id), (EntityName::client(4123), 4123));
    assert_eq!(of_server.auth_name.as_ref().unwrap().to_string(), "client.admin");
    assert_eq!(of_server.addrs.to_string(), "v1:10.0.0.9:0/77");
    assert_eq!((of_client.features, of_server.features), (features::ALL, features::ALL));
}

#[test]
fn a_monitor_assigns_a_global_id_by_messages() {
    for (known, given) in [(0, 9000), (55, 55)] {
        let mut target = target(EntityName::MON);
        target.login = Login::unproved("admin", true, known);
        let mut client = crate::support::client(client_config(), target);
        let mut server = crate::support::server(server_config(EntityName::mon(0)));
        // Messages queued early wait for the authentication.
        client.send(message(7, 10, 0));
        server.send(message(8, 10, 0));
        settle(&mut client, &mut server);
        for (end, tid) in [(&mut client, 8), (&mut server, 7)] {
            let events = events(end);
            let [Event::Ready(peer), Event::Message(got)] = &events[..] else { panic!("{events:?}") };
            assert_eq!((peer.global_id, got.header.tid), (given, tid));
        }
    }
}

#[test]
fn the_handshake_may_be_cut_anywhere() {
    for kind in [EntityName::osd(3), EntityName::mon(0)] {
        for step in 1..150 {
            let mut client = crate::support::client(client_config(), target(kind.kind));
            let mut server = crate::support::server(server_config(kind));
            while client.has_output() || server.has_output() {
                let bytes = output(&mut client);
                deliver(&mut server, &bytes, &mut NoPlacer, || step);
                let bytes = output(&mut server);
                deliver(&mut client, &bytes, &mut NoPlacer, || step);
            }
            assert!(client.is_ready() && server.is_ready(), "pieces of {step} bytes");
        }
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
        data_crc in any::<bool>(),
        signed in any::<bool>(),
    ) {
        let mut config = Config { data_crc, ..client_config() };
        if !signed {
            config.supported &= !features::MSG_AUTH;
        }
        let (client, server) = ready_with(config, server_config(EntityName::osd(3)));
        let (mut from, mut to) = if from_client { (client, server) } else { (server, client) };
        carried([&mut from, &mut to], &plans, &cuts, limit, place_from)?;
    }
}

#[test]
fn messages_encoded_into_the_queue_keep_their_order_among_others() {
    let (mut client, mut server) = ready();
    let version = |tid: u64| Versions { handle: tid, newest: tid ^ 7, oldest: 1 };
    for tid in 0..1000 {
        match tid % 3 {
            0 => client.send(message(tid, tid as usize % 2000, 10)),
            _ => client.send_payload(tid, &version(tid)),
        }
    }
    settle(&mut client, &mut server);
    for (tid, event) in (0..).zip(events(&mut server)) {
        let Event::Message(mut got) = event else { panic!("{event:?}") };
        assert_eq!((got.header.tid, got.header.seq), (tid, tid + 1));
        if tid % 3 > 0 {
            assert_eq!(got.decode::<Versions>(), Ok(version(tid)));
        }
    }
    assert_eq!((client.queued_messages(), client.queued_bytes()), (0, 0));
}

#[test]
fn the_rest_of_a_placed_payload_lands_in_its_place() {
    let (mut client, mut server) = ready();
    let large = 1 << 20;
    client.send(message(1, 100, large));
    let bytes = output(&mut client);
    let here = 54 + 100 + 5000;
    server.received(START, Segment::copy_from(&bytes[..here]), &mut PlaceFrom(1));
    let mut rest = server.landing().place.unwrap();
    assert_eq!(rest.len(), large - 5000, "available bytes are copied, the rest is received");
    rest.copy_from_slice(&bytes[here..54 + 100 + large]);
    server.landed(START, rest, large - 5000);
    server.received(START, Segment::copy_from(&bytes[54 + 100 + large..]), &mut PlaceFrom(1));
    let events = events(&mut server);
    assert!(matches!(&events[..], [Event::Message(got)] if payload(got) == pattern(2, large)));
}

#[test]
fn a_server_omits_payload_checksums_for_a_client_that_does() {
    let config = Config { data_crc: false, ..client_config() };
    let (mut client, mut server) = ready_with(config, server_config(EntityName::osd(3)));
    client.send(message(1, 200, 5000));
    let mut bytes = output(&mut client);
    bytes[1000] ^= 1;
    deliver_whole(&mut server, &bytes);
    assert!(matches!(&events(&mut server)[..], [Event::Message(_)]), "the corruption is undetected");
    server.send(message(2, 200, 5000));
    let bytes = output(&mut server);
    assert_eq!((bytes.len(), bytes[bytes.len() - 1]), (AROUND + 5200, 3), "complete, without a checksum");
    assert_eq!(bytes[bytes.len() - 13..bytes.len() - 9], [0; 4]);
    deliver_whole(&mut client, &bytes);
    assert!(matches!(&events(&mut client)[..], [Event::Message(_)]));
}

#[test]
fn a_payload_with_a_checksum_after_one_without_is_checked() {
    for damaged in [false, true] {
        let config = Config { data_crc: false, ..client_config() };
        let (mut without, mut server) = ready_with(config, server_config(EntityName::osd(3)));
        without.send(message(1, 10, 6000));
        deliver(&mut server, &output(&mut without), &mut PlaceFrom(5000), || usize::MAX);
        assert!(matches!(&events(&mut server)[..], [Event::Message(_)]));
        // The second message of another client has the next number.
        let (mut with, _) = ready();
        with.send(message(1, 10, 6000));
        let first = output(&mut with);
        with.send(message(2, 10, 6000));
        let mut second = output(&mut with);
        assert_eq!(first.len(), second.len());
        second[3000] ^= u8::from(damaged);
        deliver(&mut server, &second, &mut PlaceFrom(5000), || usize::MAX);
        if damaged {
            assert_eq!(fault(&mut server), Error::Corrupt("a message's payload"));
        } else {
            assert!(matches!(&events(&mut server)[..], [Event::Message(_)]));
        }
    }
}

#[test]
fn every_flipped_bit_of_a_message_is_detected() {
    let mut whole = message(1, 70, 350);
    whole.middle = Some(Segment::from(pattern(5, 30)));
    let (mut client, _) = ready();
    client.send(whole);
    let good = output(&mut client);
    let footer = good.len() - 21;
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (_, mut server) = ready();
        deliver_whole(&mut server, &bytes);
        let events = events(&mut server);
        match bit / 8 {
            // Another tag: the following bytes make no sense, or more are needed.
            0 => assert!(!matches!(&events[..], [Event::Message(_)]), "bit {bit}: {events:?}"),
            // The signature, ignored without a key, and flags.
            at if at >= footer + 12 => {}
            _ => assert!(matches!(&events[..], [Event::Fault(Error::Corrupt(_))]), "bit {bit}: {events:?}"),
        }
    }
}

#[test]
fn an_aborted_message_is_ignored_and_returns_its_place() {
    let (mut client, mut server) = ready();
    client.send(message(1, 10, 6000));
    let mut bytes = output(&mut client);
    let flags = bytes.len() - 1;
    bytes[flags] = 0;
    deliver(&mut server, &bytes, &mut PlaceFrom(1), || usize::MAX);
    let events = events(&mut server);
    assert!(
        matches!(&events[..], [Event::Unplaced(header, place)] if header.tid == 1 && place.len() == 6000)
    );
}

#[test]
fn payload_over_its_limit_is_discarded_as_it_arrives() {
    for step in [1000, 1 << 20] {
        let config = Config { limits: crate::support::DISCARDING, ..server_config(EntityName::osd(3)) };
        let (mut client, mut server) = ready_with(client_config(), config);
        crate::support::discards([&mut client, &mut server], step);
    }
}

#[test]
fn lengths_over_their_limits_are_refused_on_sight() {
    let limits = Limits { control: 1000, front: 100, middle: 50, data: 200, unpacked: u32::MAX, discard: 0 };
    let cases =
        [((101, 0, 0), "message front"), ((0, 51, 0), "message middle"), ((0, 0, 201), "message payload")];
    for ((front, middle, data), expected) in cases {
        let config = Config { limits, ..server_config(EntityName::osd(3)) };
        let (mut client, mut server) = ready_with(client_config(), config);
        let mut message = message(1, front, data);
        message.middle = (middle > 0).then(|| Segment::from(pattern(1, middle)));
        client.send(message);
        // Only the header: no memory can have been allocated for the announced lengths.
        deliver_whole(&mut server, &output(&mut client)[..54]);
        let error = fault(&mut server);
        assert!(matches!(error, Error::TooLong { what, .. } if what == expected), "{error}");
        assert_eq!(error.blame(), Blame::Peer);
    }
    let config = Config { limits, ..server_config(EntityName::osd(3)) };
    let mut server = crate::support::server(config);
    let mut hello = b"ceph v027".to_vec();
    hello.resize(BANNER_LEN + ADDR_LEN, 0);
    deliver_whole(&mut server, &hello);
    deliver_whole(&mut server, &connect(features::ALL, 24, 1001));
    assert!(matches!(fault(&mut server), Error::TooLong { what: "authorizer", len: 1001, .. }));
}

fn connect(features: u64, version: u32, authorizer_len: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(features);
    for field in [8, 1, 0, version, u32::from(authorizer_len > 0), authorizer_len] {
        w.u32(field);
    }
    w.u8(1);
    assert_eq!(w.len(), CONNECT_LEN);
    w.into_vec()
}

#[test]
fn a_server_gives_the_reason_for_a_refusal_and_lets_the_client_retry() {
    let mut server = server();
    let mut hello = b"ceph v027".to_vec();
    hello.resize(BANNER_LEN + ADDR_LEN, 0);
    deliver_whole(&mut server, &hello);
    let _ = output(&mut server);
    let cases = [
        (connect(features::ALL, 23, 0), 10),
        (connect(features::ALL & !features::MSG_ADDR2, 24, 0), 12),
        (connect(features::ALL, 24, 0), 11),
    ];
    for (ask, tag) in cases {
        deliver_whole(&mut server, &ask);
        let answer = output(&mut server);
        assert_eq!((answer[0], answer.len()), (tag, 26));
    }
    for _ in 0..20 {
        deliver_whole(&mut server, &connect(features::ALL, 24, 0));
    }
    assert_eq!(fault(&mut server), Error::EndlessHandshake(16));
}

fn reply(tag: u8, features: u64, global_seq: u32, connect_seq: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(tag);
    w.u64(features);
    for field in [global_seq, connect_seq, 24, 0] {
        w.u32(field);
    }
    w.u8(1);
    w.into_vec()
}

/// Returns a client that has sent its request.
fn asking() -> Connection {
    let mut client = client();
    let hello = output(&mut server());
    assert_eq!(hello.len(), BANNER_LEN + 2 * ADDR_LEN);
    deliver_whole(&mut client, &hello);
    let ask = output(&mut client);
    assert!(ask.len() > BANNER_LEN + ADDR_LEN + CONNECT_LEN);
    client
}

#[test]
fn a_refused_client_reports_the_reason() {
    let cases = [
        (reply(10, features::ALL, 0, 0), Error::ProtocolVersion { ours: 24, theirs: 24 }),
        (
            reply(11, features::ALL, 0, 0),
            auth::Error::TicketRefused { name: AuthName::client("admin"), errno: -1 }.into(),
        ),
        (reply(12, features::ALL | 1 << 63, 0, 0), Error::Features { lacked_here: 1 << 63, lacked_there: 0 }),
        (reply(3, features::ALL, 0, 0), Error::Wait),
        (reply(99, features::ALL, 0, 0), Error::UnknownTag(99)),
        (
            reply(1, features::ALL & !features::MSG_ADDR2, 0, 1),
            Error::Features { lacked_here: 0, lacked_there: 1 << 59 },
        ),
    ];
    for (answer, expected) in cases {
        let mut client = asking();
        deliver_whole(&mut client, &answer);
        assert_eq!(fault(&mut client), expected);
    }
}

#[test]
fn a_client_retries_with_other_numbers() {
    let mut client = asking();
    let seqs = |ask: &[u8]| {
        let field = |at: usize| u32::from_le_bytes(ask[at..at + 4].try_into().unwrap());
        (field(12), field(16))
    };
    deliver_whole(&mut client, &reply(5, features::ALL, u32::MAX - 5, 0));
    assert_eq!(seqs(&output(&mut client)), (u32::MAX - 4, 0), "RETRY_GLOBAL");
    deliver_whole(&mut client, &reply(4, features::ALL, 0, 7));
    assert_eq!(seqs(&output(&mut client)), (u32::MAX - 4, 7), "RETRY_SESSION");
    deliver_whole(&mut client, &reply(2, features::ALL, 0, 0));
    assert_eq!(seqs(&output(&mut client)), (u32::MAX - 4, 0), "RESETSESSION");
    deliver_whole(&mut client, &reply(1, features::ALL, 1, 1));
    assert!(client.is_ready(), "READY needs no sequence numbers");
}

#[test]
fn other_protocols_and_other_peers_are_distinguished() {
    for (bytes, expected) in
        [(&b"ceph v2\n\x10"[..], Error::Msgr2), (&b"GET / HTTP/1.1"[..], Error::NotMsgr1)]
    {
        let mut server = server();
        deliver_whole(&mut server, bytes);
        assert_eq!(fault(&mut server), expected);
    }
    let mut target = target(EntityName::OSD);
    target.addr.nonce = 6;
    let mut client = crate::support::client(client_config(), target);
    deliver_whole(&mut client, &output(&mut server()));
    assert!(matches!(fault(&mut client), Error::WrongPeer { .. }));
}

/// Returns a client that knows the key `knows`, and the gates of daemons that know `key`.
fn cephx(key: &str, knows: &str) -> (Principal, impl Fn(u32) -> Gate) {
    let keyring =
        Keyring::parse(&format!("[client.admin]\nkey = {key}\ncaps mon = allow *\ncaps osd = allow *\n"));
    let authority = Authority::new(keyring.unwrap(), Lifetimes::default(), Entropy::new([1; 32]));
    let authority = Arc::new(Mutex::new(authority));
    let gate = move |service| {
        let authority = Arc::clone(&authority);
        Gate::Cephx { authority, service, modes: vec![mode::CRC] }
    };
    let credentials = Credentials::new(AuthName::client("admin"), Some(Key::from_base64(knows).unwrap()));
    (Principal::new(Arc::new(credentials), service::OSD, Entropy::new([2; 32])), gate)
}

const KEY: &str = "AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFg==";
const OTHER_KEY: &str = "AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFw==";
/// Key of the preferred cipher since Ceph 20.
const AES256K_KEY: &str = "AgCgVgJr2p7MCyAANXfi0GV65V0rvz7iV3WmFzV34tBleuVdK78+4ld1phc=";

/// Returns both ends after they have exchanged all their output.
fn met(kind: EntityName, login: Login, gate: Gate) -> (Connection, Connection) {
    let mut client = crate::support::client(client_config(), Target { login, ..target(kind.kind) });
    let mut server = crate::support::server(Config { gate, ..server_config(kind) });
    settle(&mut client, &mut server);
    (client, server)
}

#[test]
fn a_client_authenticates_to_a_monitor_and_to_an_osd_and_signs_its_messages() {
    signs_its_messages(KEY);
}

#[test]
fn a_client_with_a_key_of_ceph_20_signs_its_messages_too() {
    signs_its_messages(AES256K_KEY);
}

fn signs_its_messages(key: &str) {
    let (mut principal, gate) = cephx(key, key);
    let (mut client, mut monitor) =
        met(EntityName::mon(0), principal.login_to_monitor(), gate(service::AUTH));
    let of_client = events(&mut client);
    let Ok([Event::Ready(peer)]) = <[Event; 1]>::try_from(of_client) else { panic!("not admitted") };
    assert_eq!(peer.global_id, 9000);
    principal.session_began(START, peer.global_id, peer.granted);
    let of_monitor = events(&mut monitor);
    let [Event::Ready(peer)] = &of_monitor[..] else { panic!("{of_monitor:?}") };
    assert_eq!((peer.global_id, peer.auth_name.as_ref().unwrap().to_string()), (9000, "client.admin".into()));

    for damaged in [false, true] {
        let login = principal.login_to_service(START, service::OSD);
        let (mut client, mut osd) = met(EntityName::osd(3), login, gate(service::OSD));
        let of_osd = events(&mut osd);
        let [Event::Ready(peer)] = &of_osd[..] else { panic!("{of_osd:?}") };
        assert_eq!(
            (peer.name, peer.caps.clone()),
            (EntityName::client(9000), Caps::Written("allow *".into()))
        );
        assert!(client.is_ready());
        client.send(message(1, 100, 5000));
        let mut bytes = output(&mut client);
        let footer = bytes.len() - 21;
        assert_ne!(bytes[footer + 12..footer + 20], [0; 8]);
        assert_eq!(bytes[footer + 20], 1 | 4, "complete and signed");
        bytes[footer + 12] ^= u8::from(damaged);
        deliver_whole(&mut osd, &bytes);
        if damaged {
            assert_eq!(fault(&mut osd), Error::BadMessageSignature);
        } else {
            assert!(matches!(&events(&mut osd)[..], [Event::Message(_)]));
        }
    }
}

#[test]
fn a_wrong_key_and_no_key_are_refused() {
    let (mut principal, gate) = cephx(KEY, OTHER_KEY);
    let (mut client, server) = met(EntityName::mon(0), principal.login_to_monitor(), gate(service::AUTH));
    assert!(matches!(fault(&mut client), Error::Auth(auth::Error::Refused { .. })));
    assert!(!server.is_ready());
    for (kind, service) in [(EntityName::mon(0), service::AUTH), (EntityName::osd(3), service::OSD)] {
        let login = Login::unproved("admin", kind.kind == EntityName::MON, 4123);
        let (mut client, server) = met(kind, login, gate(service));
        assert!(matches!(fault(&mut client), Error::Auth(_)));
        assert!(!server.is_ready());
    }
}

#[test]
fn keepalives_are_requested_and_answered() {
    let keepalive = Keepalive { interval: Duration::from_secs(10), timeout: Duration::from_secs(20) };
    let config = Config { keepalive: Some(keepalive), ..client_config() };
    let (mut client, mut server) = ready_with(config, server_config(EntityName::osd(3)));
    let at = START + Duration::from_secs(10);
    assert_eq!(client.deadline(), Some(at));
    client.timeout(at);
    let question = output(&mut client);
    assert_eq!((question[0], question.len()), (14, 9));
    deliver_whole(&mut server, &question);
    let answer = output(&mut server);
    assert_eq!((answer[0], &answer[1..]), (15, &question[1..]));
    client.received(at, Segment::copy_from(&answer), &mut NoPlacer);
    assert_eq!(client.deadline(), Some(at + Duration::from_secs(10)));
    client.timeout(at + Duration::from_secs(10));
    client.timeout(at + Duration::from_secs(30));
    assert_eq!(fault(&mut client), Error::Silent(Duration::from_secs(20)));
}

#[test]
fn a_stalled_handshake_ends() {
    for mut end in [client(), server()] {
        let deadline = end.deadline().unwrap();
        end.timeout(deadline);
        assert!(matches!(fault(&mut end), Error::HandshakeTimeout(_)));
    }
    let (_, mut server) = ready();
    deliver_whole(&mut server, &[6]);
    assert_eq!(fault(&mut server), Error::Closed);
}
