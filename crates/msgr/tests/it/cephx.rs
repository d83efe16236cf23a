//! Connections with authentication on both ends, in crc and secure mode.

use crate::support::*;
use onego_buf::Segment;
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::{
    self, AuthName, Authority, Caps, Cipher, Credentials, Entropy, Entry, Gate, Key, Keyring, Lifetimes,
    Principal, mode, service,
};
use onego_msgr::types::{EntityName, Utime};
use onego_msgr::{Config, Connection, Error, Event, Limits, NoPlacer, Peer, Target, Visitor};
use onego_wire::Time;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIFETIMES: Lifetimes =
    Lifetimes { monitor: Duration::from_secs(3600), service: Duration::from_secs(60) };

struct World {
    authority: Arc<Mutex<Authority>>,
    principal: Principal,
}

fn key(seed: u8, cipher: Cipher) -> Key {
    Key::generate(cipher, Utime::default(), &mut Entropy::new([seed; 32]))
}

fn credentials(key: Key, modes: &[u32]) -> Arc<Credentials> {
    let credentials = Credentials::new(AuthName::client("admin"), Some(key));
    Arc::new(Credentials { modes: modes.to_vec(), monitor_modes: modes.to_vec(), ..credentials })
}

fn principal(key: Key, modes: &[u32]) -> Principal {
    Principal::new(credentials(key, modes), service::OSD, Entropy::new([3; 32]))
}

impl World {
    fn new(cipher: Cipher, modes: &[u32]) -> Self {
        let caps = ["mon", "osd"].map(|service| (service.to_owned(), "allow *".to_owned()));
        let entry = Entry { key: key(1, cipher), caps: BTreeMap::from(caps) };
        let keyring = Keyring { entries: BTreeMap::from([(AuthName::client("admin"), entry)]) };
        let authority = Authority::new(keyring, LIFETIMES, Entropy::new([2; 32]));
        Self { authority: Arc::new(Mutex::new(authority)), principal: principal(key(1, cipher), modes) }
    }

    fn server_at(&self, now: Time, entity: EntityName, service: u32) -> Connection {
        self.server_with(now, entity, service, Limits::default())
    }

    fn server_with(&self, now: Time, entity: EntityName, service: u32, limits: Limits) -> Connection {
        let addrs: AddrVec = "v2:10.0.0.1:6800/5".parse().unwrap();
        let gate = Gate::Cephx {
            authority: Arc::clone(&self.authority),
            service,
            modes: vec![mode::CRC, mode::SECURE],
        };
        let config = Config { entity, addrs, gate, limits, ..server_config() };
        let visitor = Visitor { addr: client_sock(), fresh_global_id: 9000 };
        Connection::accept(now, Arc::new(config), visitor, server_sock())
    }

    fn monitor(&self) -> Connection {
        self.server_at(START, EntityName::mon(0), service::AUTH)
    }

    fn osd(&self) -> Connection {
        self.server_at(START, EntityName::osd(3), service::OSD)
    }

    fn osd_with(&self, limits: Limits) -> Connection {
        self.server_with(START, EntityName::osd(3), service::OSD, limits)
    }

    fn client_of_monitor(&mut self) -> Connection {
        let login = self.principal.login_to_monitor();
        client(client_config(), Target { kind: EntityName::MON, login, ..target() })
    }

    fn client_of_osd(&mut self) -> Connection {
        let login = self.principal.login_to_service(START, service::OSD);
        client(client_config(), Target { login, ..target() })
    }

    /// Logs in to the monitor for tickets. Returns the monitor's view of the client.
    fn log_in(&mut self) -> Peer {
        let (mut client, mut monitor) = (self.client_of_monitor(), self.monitor());
        settle(&mut client, &mut monitor);
        let peer = peer_of(&mut client);
        self.principal.session_began(START, peer.global_id, peer.granted);
        peer_of(&mut monitor)
    }
}

fn peer_of(end: &mut Connection) -> Peer {
    match <[Event; 1]>::try_from(events(end)) {
        Ok([Event::Ready(peer)]) => peer,
        other => panic!("not ready: {other:?}"),
    }
}

fn fault(end: &mut Connection) -> Error {
    match events(end).pop() {
        Some(Event::Fault(error)) => error,
        other => panic!("no fault: {other:?}"),
    }
}

/// Carries bytes both ways at `now` until neither end has output.
fn settle_at(now: Time, client: &mut Connection, server: &mut Connection) {
    while client.has_output() || server.has_output() {
        let bytes = output(client);
        server.received(now, Segment::copy_from(&bytes), &mut NoPlacer);
        let bytes = output(server);
        client.received(now, Segment::copy_from(&bytes), &mut NoPlacer);
    }
}

fn is_refused(error: &Error) -> bool {
    use auth::Error as E;
    matches!(error, Error::Auth(E::Refused { errno: -13, .. } | E::TicketRefused { errno: -13, .. }))
}

#[test]
fn a_client_authenticates_to_a_monitor_and_then_to_an_osd() {
    for cipher in [Cipher::Aes, Cipher::Aes256k] {
        for mode in [mode::CRC, mode::SECURE] {
            let mut world = World::new(cipher, &[mode]);
            let known = world.log_in();
            assert_eq!((known.global_id, known.auth_name), (9000, Some(AuthName::client("admin"))));
            assert_eq!((known.caps, known.secure), (Caps::Written("allow *".into()), mode == mode::SECURE));
            let (mut client, mut osd) = (world.client_of_osd(), world.osd());
            settle(&mut client, &mut osd);
            assert_eq!(peer_of(&mut client).secure, mode == mode::SECURE);
            let known = peer_of(&mut osd);
            assert_eq!((known.name, known.global_id), (EntityName::client(9000), 9000));
            assert_eq!(known.caps, Caps::Written("allow *".into()));
        }
    }
}

#[test]
fn encrypted_messages_arrive_however_they_are_cut() {
    let mut world = World::new(Cipher::Aes, &[mode::SECURE]);
    world.log_in();
    let (mut client, mut osd) = (world.client_of_osd(), world.osd());
    settle(&mut client, &mut osd);
    peer_of(&mut client);
    peer_of(&mut osd);
    let sizes = [(0, 0), (1, 0), (0, 1), (16, 16), (17, 4097), (300, 70_001), (5000, 300_000)];
    for (number, step) in [1, 7, 15, 16, 17, 95, 96, 4000, 1 << 20].into_iter().enumerate() {
        for place_from in [1, 5000, usize::MAX] {
            for to_osd in [true, false] {
                let (tx, rx) = if to_osd { (&mut client, &mut osd) } else { (&mut osd, &mut client) };
                sizes.iter().for_each(|(front, data)| tx.send(message(number as u64, *front, *data)));
                let bytes = output(tx);
                deliver(rx, &bytes, &mut PlaceFrom(place_from), || step);
                let got = events(rx);
                assert_eq!(got.len(), sizes.len());
                for (event, (front, data)) in got.into_iter().zip(sizes) {
                    let Event::Message(got) = event else { panic!("{event:?}") };
                    assert_eq!(&got.front[..], pattern(1, front));
                    assert_eq!(payload(&got), pattern(2, data));
                    assert_eq!(got.placed.is_some(), data >= place_from);
                }
            }
        }
    }
}

#[test]
fn encrypted_payload_over_its_limit_is_discarded_as_it_arrives() {
    for step in [1, 999, 1 << 20] {
        let mut world = World::new(Cipher::Aes, &[mode::SECURE]);
        world.log_in();
        let (mut client, mut osd) = (world.client_of_osd(), world.osd_with(DISCARDING));
        settle(&mut client, &mut osd);
        assert!(peer_of(&mut client).secure);
        peer_of(&mut osd);
        discards([&mut client, &mut osd], step);
    }
}

#[test]
fn a_handshake_may_be_cut_anywhere() {
    for mode in [mode::CRC, mode::SECURE] {
        let mut world = World::new(Cipher::Aes, &[mode]);
        world.log_in();
        for step in (1..40).chain([97, 333]) {
            let (mut client, mut osd) = (world.client_of_osd(), world.osd());
            while client.has_output() || osd.has_output() {
                let bytes = output(&mut client);
                deliver(&mut osd, &bytes, &mut NoPlacer, || step);
                let bytes = output(&mut osd);
                deliver(&mut client, &bytes, &mut NoPlacer, || step);
            }
            peer_of(&mut client);
            peer_of(&mut osd);
        }
    }
}

#[test]
fn a_modified_byte_of_the_handshake_is_detected_before_messages_flow() {
    let mut world = World::new(Cipher::Aes, &[mode::CRC]);
    world.log_in();
    // All output of the client, one round after the other.
    for round in 0..4 {
        for at in 0.. {
            let (mut client, mut osd) = (world.client_of_osd(), world.osd());
            for _ in 0..round {
                exchange(&mut client, &mut osd);
            }
            let mut bytes = output(&mut client);
            let Some(byte) = bytes.get_mut(at) else { break };
            *byte ^= 0x10;
            deliver_whole(&mut osd, &bytes);
            settle(&mut client, &mut osd);
            // The identification is not signed; only encryption and its own checksum protect it.
            let both = client.is_ready() && osd.is_ready();
            assert!(!both, "byte {at} of round {round}");
        }
    }
}

#[test]
fn a_modified_byte_of_an_encrypted_message_delivers_nothing() {
    let mut world = World::new(Cipher::Aes, &[mode::SECURE]);
    world.log_in();
    let mut len = usize::MAX;
    let mut at = 0;
    while at < len {
        let (mut client, mut osd) = (world.client_of_osd(), world.osd());
        settle(&mut client, &mut osd);
        peer_of(&mut client);
        peer_of(&mut osd);
        client.send(message(1, 40, 100));
        let mut bytes = output(&mut client);
        len = bytes.len();
        bytes[at] ^= 1;
        deliver(&mut osd, &bytes, &mut PlaceFrom(1), || 1 << 20);
        let got = events(&mut osd);
        assert!(got.iter().all(|event| !matches!(event, Event::Message(_))), "byte {at}");
        assert!(matches!(got.last(), Some(Event::Fault(Error::Tampered(_)))), "byte {at}: {got:?}");
        for event in got {
            if let Event::Unplaced(_, place) = event {
                assert!(place.iter().all(|byte| *byte == 0), "returned buffers are wiped");
            }
        }
        at += 1;
    }
}

#[test]
fn a_wrong_key_and_an_unknown_name_are_refused_alike() {
    let mut world = World::new(Cipher::Aes, &[mode::CRC]);
    world.principal = principal(key(9, Cipher::Aes), &[mode::CRC]);
    let (mut client, mut monitor) = (world.client_of_monitor(), world.monitor());
    settle(&mut client, &mut monitor);
    let wrong_key = fault(&mut client);
    assert!(is_refused(&wrong_key), "{wrong_key}");
    assert!(wrong_key.to_string().contains("client.admin"), "{wrong_key}");

    world.authority.lock().unwrap().remove(&AuthName::client("admin"));
    let (mut client, mut monitor) = (world.client_of_monitor(), world.monitor());
    settle(&mut client, &mut monitor);
    assert_eq!(fault(&mut client), wrong_key);
}

#[test]
fn a_client_without_a_key_learns_that_it_needs_one() {
    let world = World::new(Cipher::Aes, &[mode::CRC]);
    let mut client = client(client_config(), target_of(EntityName::MON));
    settle(&mut client, &mut world.monitor());
    let error = fault(&mut client);
    assert!(matches!(error, Error::Auth(auth::Error::NoKey { .. })), "{error}");
}

#[test]
fn a_client_cannot_take_over_the_number_of_another() {
    let mut world = World::new(Cipher::Aes, &[mode::CRC]);
    // The client claims number 55 without a ticket for it.
    world.principal.session_began(START, 55, None);
    let (mut client, mut monitor) = (world.client_of_monitor(), world.monitor());
    settle(&mut client, &mut monitor);
    assert!(is_refused(&fault(&mut client)));
}

#[test]
fn a_returning_client_keeps_its_number() {
    let mut world = World::new(Cipher::Aes, &[mode::CRC]);
    for _ in 0..3 {
        assert_eq!(world.log_in().global_id, 9000);
    }
}

#[test]
fn an_expired_ticket_identifies_its_owner_until_its_key_is_gone() {
    for (lifetimes, known) in [(1, true), (2, true), (3, false)] {
        let mut world = World::new(Cipher::Aes, &[mode::CRC]);
        let session = world.log_in().renewals.unwrap();
        let now = START + LIFETIMES.monitor * lifetimes;
        let request = world.principal.renew(now).unwrap();
        let answer = session.renew(now, &request);
        assert_eq!(answer.is_ok(), known, "after {lifetimes} lifetimes");
        if let Ok(answer) = answer {
            world.principal.renewed(now, &answer).unwrap();
            assert_eq!(world.principal.global_id(), 9000);
            assert!(world.principal.deadline().unwrap() > now);
        }
    }
}

#[test]
fn a_recorded_handshake_admits_no_client() {
    let mut world = World::new(Cipher::Aes, &[mode::CRC]);
    world.log_in();
    let (mut client, mut osd) = (world.client_of_osd(), world.osd());
    let mut recorded = Vec::new();
    while client.has_output() || osd.has_output() {
        let bytes = output(&mut client);
        deliver_whole(&mut osd, &bytes);
        recorded.push(bytes);
        let bytes = output(&mut osd);
        deliver_whole(&mut client, &bytes);
    }
    assert!(osd.is_ready());
    let mut osd = world.osd();
    recorded.iter().for_each(|bytes| deliver_whole(&mut osd, bytes));
    assert!(!osd.is_ready());
}

#[test]
fn a_ticket_is_renewed_in_time_and_refused_after_expiry() {
    let mut world = World::new(Cipher::Aes, &[mode::CRC]);
    let session = world.log_in().renewals.unwrap();
    assert_eq!(world.principal.renew(START), None);
    let due = world.principal.deadline().unwrap();
    assert_eq!(due, START + Duration::from_secs(45));
    let late = START + Duration::from_secs(59);
    let stale = world.principal.login_to_service(late, service::OSD);

    let request = world.principal.renew(late).unwrap();
    assert_eq!(world.principal.renew(late), None, "one request at a time");
    let answer = session.renew(late, &request).unwrap();
    world.principal.renewed(late, &answer).unwrap();
    assert_eq!(world.principal.deadline().unwrap(), late + Duration::from_secs(45));

    let after = START + Duration::from_secs(70);
    for (login, taken) in [(stale, false), (world.principal.login_to_service(after, service::OSD), true)] {
        let mut client = client(client_config(), Target { login, ..target() });
        let mut osd = world.server_at(after, EntityName::osd(3), service::OSD);
        settle_at(after, &mut client, &mut osd);
        assert_eq!(client.is_ready(), taken);
    }

    // After most of an hour the session key itself is renewed.
    let much_later = START + Duration::from_secs(3000);
    let request = world.principal.renew(much_later).unwrap();
    let answer = session.renew(much_later, &request).unwrap();
    world.principal.renewed(much_later, &answer).unwrap();
    assert!(world.principal.deadline().unwrap() > much_later);
    assert!(session.renew(much_later, b"nonsense").is_err());
}
