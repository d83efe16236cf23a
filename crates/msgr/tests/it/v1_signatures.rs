//! Message signatures in version 1 of the protocol. Every message between a client with a key and an OSD is signed, and
//! a wrong signature is refused even if an attacker who modifies the message also corrects its checksums.

use crate::support::{START, client_config, deliver_whole, events, fault, message, output, pattern, settle};
use onego_buf::{Segment, crc32c};
use onego_msgr::auth::{
    AuthName, Authority, Credentials, Entropy, Gate, Key, Keyring, Lifetimes, Principal, mode, service,
};
use onego_msgr::types::EntityName;
use onego_msgr::types::kind;
use onego_msgr::{Config, Connection, Error, Event, Target};
use std::sync::{Arc, Mutex};

const KEY: &str = "AQCgVgJr2p7MCxAANXfi0GV65V0rvz7iV3WmFg==";

/// Every kind of message that a client or an OSD may send.
const KINDS: [u16; 10] = [
    kind::PING,
    kind::OSD_MAP,
    kind::OSD_OP,
    kind::OSD_OP_REPLY,
    kind::WATCH_NOTIFY,
    kind::OSD_BACKOFF,
    kind::CONFIG,
    kind::COMMAND,
    kind::COMMAND_REPLY,
    kind::LOG,
];

/// Sizes of a message's parts in bytes, and their offsets.
const FRONT: usize = 70;
const MIDDLE: usize = 30;
const DATA: usize = 350;
const HEADER_AT: usize = 1;
const HEADER_CRC_AT: usize = HEADER_AT + 49;
const FRONT_AT: usize = HEADER_CRC_AT + 4;
const MIDDLE_AT: usize = FRONT_AT + FRONT;
const DATA_AT: usize = MIDDLE_AT + MIDDLE;
const FOOTER_AT: usize = DATA_AT + DATA;
const SIGNATURE_AT: usize = FOOTER_AT + 12;
const FLAGS_AT: usize = FOOTER_AT + 20;

/// Client with a ticket for OSDs.
struct Ticket {
    principal: Principal,
    authority: Arc<Mutex<Authority>>,
}

fn gate(authority: &Arc<Mutex<Authority>>, service: u32) -> Gate {
    Gate::Cephx { authority: Arc::clone(authority), service, modes: vec![mode::CRC] }
}

fn target(kind: u8) -> Target {
    Target { addr: "v1:10.0.0.1:6800/5".parse().unwrap(), ..crate::support::target_of(kind) }
}

fn server(entity: EntityName, gate: Gate) -> Connection {
    let addrs = "v1:10.0.0.1:6800/5".parse().unwrap();
    crate::support::server(Config { entity, addrs, gate, ..crate::support::server_config() })
}

impl Ticket {
    fn new() -> Self {
        let text = format!("[client.admin]\nkey = {KEY}\ncaps mon = allow *\ncaps osd = allow *\n");
        let keyring = Keyring::parse(&text).unwrap();
        let authority = Authority::new(keyring, Lifetimes::default(), Entropy::new([1; 32]));
        let authority = Arc::new(Mutex::new(authority));
        let key = Some(Key::from_base64(KEY).unwrap());
        let credentials = Arc::new(Credentials::new(AuthName::client("admin"), key));
        let mut principal = Principal::new(credentials, service::OSD, Entropy::new([2; 32]));
        let login = principal.login_to_monitor();
        let mut client = crate::support::client(client_config(), Target { login, ..target(EntityName::MON) });
        let mut monitor = server(EntityName::mon(0), gate(&authority, service::AUTH));
        settle(&mut client, &mut monitor);
        let Ok([Event::Ready(peer)]) = <[Event; 1]>::try_from(events(&mut client)) else { panic!("refused") };
        principal.session_began(START, peer.global_id, peer.granted);
        Self { principal, authority }
    }

    /// Returns a client and an OSD that are authenticated to each other, the sender first.
    fn ends(&mut self, from_client: bool) -> (Connection, Connection) {
        let login = self.principal.login_to_service(START, service::OSD);
        let mut client = crate::support::client(client_config(), Target { login, ..target(EntityName::OSD) });
        let mut osd = server(EntityName::osd(3), gate(&self.authority, service::OSD));
        settle(&mut client, &mut osd);
        for end in [&mut client, &mut osd] {
            assert!(matches!(&events(end)[..], [Event::Ready(_)]));
        }
        if from_client { (client, osd) } else { (osd, client) }
    }
}

fn sent(from: &mut Connection, kind: u16) -> Vec<u8> {
    let mut whole = message(1, FRONT, DATA);
    whole.header.kind = kind;
    whole.middle = Some(Segment::from(pattern(5, MIDDLE)));
    from.send(whole);
    let bytes = output(from);
    assert_eq!(bytes.len(), FLAGS_AT + 1);
    bytes
}

fn correct_sums(bytes: &mut [u8]) {
    let sums = [
        (HEADER_AT..HEADER_CRC_AT, HEADER_CRC_AT),
        (FRONT_AT..MIDDLE_AT, FOOTER_AT),
        (MIDDLE_AT..DATA_AT, FOOTER_AT + 4),
        (DATA_AT..FOOTER_AT, FOOTER_AT + 8),
    ];
    for (of, at) in sums {
        let sum = crc32c(0, &bytes[of]);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn every_kind_of_message_is_signed_in_both_directions_and_refused_otherwise() {
    let mut ticket = Ticket::new();
    for (kind, from_client) in KINDS.iter().flat_map(|kind| [(*kind, true), (*kind, false)]) {
        // Unchanged; without the flag; with the flag and zeros; with another signature.
        for damage in 0..4 {
            let (mut from, mut to) = ticket.ends(from_client);
            let mut bytes = sent(&mut from, kind);
            assert_eq!(bytes[FLAGS_AT], 1 | 4, "{kind}: complete and signed");
            let signature = &mut bytes[SIGNATURE_AT..FLAGS_AT];
            assert_ne!(signature, [0; 8], "{kind}");
            match damage {
                0 => {}
                1 => bytes[FLAGS_AT] = 1,
                2 => signature.fill(0),
                _ => signature.reverse(),
            }
            deliver_whole(&mut to, &bytes);
            if damage == 0 {
                let got = events(&mut to);
                assert!(matches!(&got[..], [Event::Message(got)] if got.header.kind == kind), "{got:?}");
            } else {
                assert_eq!(fault(&mut to), Error::BadMessageSignature, "{kind}, damage {damage}");
            }
        }
    }
}

#[test]
fn a_message_with_a_flipped_bit_is_refused_even_if_its_checksums_are_right() {
    let mut ticket = Ticket::new();
    for (bit, from_client) in (8..(FLAGS_AT + 1) * 8).map(|bit| (bit, bit % 2 == 0)) {
        for corrected in [false, true] {
            let (mut from, mut to) = ticket.ends(from_client);
            let mut bytes = sent(&mut from, kind::OSD_OP);
            let at = bit / 8;
            bytes[at] ^= 1 << (bit % 8);
            let is_length = (HEADER_AT + 22..HEADER_AT + 34).contains(&at);
            if corrected && !is_length && at < FOOTER_AT {
                correct_sums(&mut bytes);
            }
            deliver_whole(&mut to, &bytes);
            let events = events(&mut to);
            match at {
                // Lengths: the following bytes are something else, or more are needed.
                _ if is_length => {
                    assert!(!events.iter().any(|event| matches!(event, Event::Message(_))), "bit {bit}");
                }
                // Incomplete: the sender aborted it. The other flags have no known meaning.
                FLAGS_AT if bit % 8 == 0 => assert!(events.is_empty(), "bit {bit}: {events:?}"),
                FLAGS_AT if bit % 8 > 2 => assert!(matches!(&events[..], [Event::Message(_)]), "bit {bit}"),
                FLAGS_AT | SIGNATURE_AT..FLAGS_AT => {
                    assert!(
                        matches!(&events[..], [Event::Fault(Error::BadMessageSignature)]),
                        "bit {bit}: {events:?}"
                    );
                }
                _ if corrected && at < FOOTER_AT => {
                    // The checksum of the header itself was corrected: nothing has changed.
                    let is_sum = (HEADER_CRC_AT..FRONT_AT).contains(&at);
                    let refused = matches!(&events[..], [Event::Fault(Error::BadMessageSignature)]);
                    assert!(refused || is_sum, "bit {bit}: {events:?}");
                }
                _ => {
                    assert!(
                        matches!(&events[..], [Event::Fault(Error::Corrupt(_))]),
                        "bit {bit}: {events:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_duplicate_message_is_refused() {
    let mut ticket = Ticket::new();
    let (mut from, mut to) = ticket.ends(true);
    let bytes = sent(&mut from, kind::OSD_OP);
    deliver_whole(&mut to, &bytes);
    assert!(matches!(&events(&mut to)[..], [Event::Message(_)]));
    deliver_whole(&mut to, &bytes);
    assert!(!matches!(&events(&mut to)[..], [Event::Message(_)]), "its number was already used");
}
