//! TLS: what it protects, what it wipes, whom it lets in, and what it costs at most.

use crate::support::tls::{Authority, Identity};
use crate::support::{Net, Reply, STYLES, Who, export, request};
use onego_block::{Geometry, Memory};
use onego_export::nbd::{Config, Tls};
use onego_nbd::codec::{
    ClientFlags, ErrorCode, HeaderStyle, MetaQuery, OptionCode, OptionError, OptionReplyType, RequestType,
};
use rustls::version::{TLS12, TLS13};
use std::rc::Rc;
use std::time::Duration;

const SIZE: u64 = 64 << 20;
const FLAGS: ClientFlags = ClientFlags(3);

/// A server with TLS, of one export in memory.
fn net(tls: Tls) -> Net {
    let mut net = Net::with(Config { tls: Some(tls), ..Config::default() });
    let device = Rc::new(Memory::new(Geometry::new(SIZE)));
    net.machine.add_export(export("disk", device)).unwrap();
    net
}

/// A client that has said it is there.
fn greeted(net: &mut Net) -> Who {
    let who = net.connect();
    net.greet(who, FLAGS);
    who
}

fn refusal(error: OptionError) -> OptionReplyType {
    OptionReplyType::Error(error)
}

/// Bytes that do not repeat where records end.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

/// The rest of the handshake, and a little work.
fn works(net: &mut Net, who: Who, style: HeaderStyle) {
    net.ask_style(who, style);
    assert_eq!(net.go(who, "disk").size, SIZE);
    for (offset, length) in [(5, 1), (4096, 4096), (100_000, 3_000_000)] {
        let data = pattern(length);
        assert_eq!(net.write(who, offset, &data), Reply::Done);
        assert!(net.read(who, offset, length as u64) == Reply::Data(data), "{length} bytes at {offset}");
    }
}

#[test]
fn an_export_is_used_through_tls_however_the_bytes_are_cut() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        for (style, cut) in STYLES.into_iter().zip([usize::MAX, 7, 16_000]) {
            let mut net = net(authority.serve(None));
            net.cut = cut;
            let who = greeted(&mut net);
            net.start_tls(who, authority.client(None, version));
            works(&mut net, who, style);
            assert_eq!(net.machine.counters().given_up, 0);
        }
    }
}

#[test]
fn nothing_but_tls_is_answered_where_it_is_required() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None).required());
    let who = greeted(&mut net);
    for code in [
        OptionCode::List,
        OptionCode::Info,
        OptionCode::Go,
        OptionCode::StructuredReply,
        OptionCode::ExtendedHeaders,
        OptionCode::ListMetaContext,
        OptionCode::Unknown(77),
    ] {
        let replies = net.option(who, code, &[]);
        assert_eq!(replies.len(), 1, "{code:?}: {replies:?}");
        assert_eq!(replies[0].0, refusal(OptionError::TlsRequired), "{code:?}");
    }
    net.start_tls(who, authority.client(None, &TLS13));
    works(&mut net, who, HeaderStyle::Structured);
    // An option that cannot fail ends the connection, and one that ends it is answered.
    let who = greeted(&mut net);
    net.send_option(who, OptionCode::ExportName, b"disk");
    assert_eq!(net.came(who), b"");
    assert!(net.is_closed(who));
    let who = greeted(&mut net);
    assert_eq!(net.outcome(who, OptionCode::Abort, &[]), OptionReplyType::Ack);
}

#[test]
fn clients_may_do_without_tls_where_it_is_only_offered() {
    let mut net = net(Authority::new().serve(None));
    let who = greeted(&mut net);
    works(&mut net, who, HeaderStyle::Extended);
}

#[test]
fn tls_starts_once_and_without_data_and_only_where_there_is_some() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None));
    let who = greeted(&mut net);
    assert_eq!(net.outcome(who, OptionCode::StartTls, b"x"), refusal(OptionError::Invalid));
    net.start_tls(who, authority.client(None, &TLS13));
    assert_eq!(net.outcome(who, OptionCode::StartTls, &[]), refusal(OptionError::Invalid));
    works(&mut net, who, HeaderStyle::Simple);
    let mut without = Net::new(Rc::new(Memory::new(Geometry::new(SIZE))));
    let who = greeted(&mut without);
    assert_eq!(without.outcome(who, OptionCode::StartTls, &[]), refusal(OptionError::Unsupported));
}

#[test]
fn what_was_agreed_on_in_the_clear_is_void() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None));
    let who = greeted(&mut net);
    net.ask_style(who, HeaderStyle::Structured);
    let allocation = MetaQuery { name: b"disk", queries: vec![b"base:allocation"] }.encode();
    assert_eq!(net.outcome(who, OptionCode::SetMetaContext, &allocation), OptionReplyType::Ack);
    net.start_tls(who, authority.client(None, &TLS13));
    assert_eq!(
        net.outcome(who, OptionCode::SetMetaContext, &allocation),
        refusal(OptionError::Invalid),
        "structured replies have to be asked for again"
    );
    net.ask_style(who, HeaderStyle::Structured);
    net.go(who, "disk");
    let status = net.call(who, request(RequestType::BlockStatus, 1, 0, 4096), &[]);
    assert_eq!(status, Reply::Error(ErrorCode::Invalid), "and so has the context");
}

#[test]
fn bytes_in_the_clear_behind_the_wish_for_tls_end_the_connection() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None));
    let who = greeted(&mut net);
    net.send_option(who, OptionCode::StartTls, &[]);
    // Somebody on the way asks for the names of exports, as if it was the client.
    net.send_option(who, OptionCode::List, &[]);
    let came = net.came(who);
    assert!(!came.windows(4).any(|four| four == b"disk"), "the list was answered");
    assert!(net.is_closed(who));
    assert_eq!(net.machine.counters().given_up, 1);
}

#[test]
fn clients_need_a_certificate_of_the_authority_that_is_valid() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut net = net(authority.serve(Some(&authority)).required());
    let mut enters = |identity: Option<Identity>| {
        let who = greeted(&mut net);
        net.start_tls(who, authority.client(identity.as_ref(), &TLS13));
        if net.is_closed(who) {
            assert!(net.tls(who).error.is_some(), "the client is told by an alert");
            return false;
        }
        works(&mut net, who, HeaderStyle::Structured);
        true
    };
    assert!(enters(Some(authority.sign_client())));
    assert!(!enters(None), "without a certificate");
    assert!(!enters(Some(other.sign_client())), "of another authority");
    assert!(!enters(Some(authority.sign("client.example", 2010))), "expired");
    assert_eq!(net.machine.counters().given_up, 3);
    assert_eq!(net.machine.connections(), 1);
}

#[test]
fn a_client_that_does_not_trust_the_server_ends_the_connection() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut net = net(authority.serve(None));
    let who = greeted(&mut net);
    net.start_tls(who, other.client(None, &TLS13));
    assert!(net.tls(who).error.is_some());
    assert!(net.is_closed(who));
}

#[test]
fn bytes_that_were_changed_on_the_way_are_never_carried_out() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None));
    let who = greeted(&mut net);
    net.start_tls(who, authority.client(None, &TLS13));
    works(&mut net, who, HeaderStyle::Simple);
    let carried_out = net.machine.counters().requests;
    // A record of the right form that the client has not sealed.
    let forged = [&[23, 3, 3, 0, 40][..], &[9; 40]].concat();
    net.send_raw(who, &forged);
    net.turn();
    assert!(net.is_closed(who));
    assert_eq!(net.machine.counters().requests, carried_out);
}

#[test]
fn a_client_that_leaves_is_told_that_nothing_was_cut_off() {
    let authority = Authority::new();
    for version in [&TLS12, &TLS13] {
        let mut net = net(authority.serve(None));
        let who = greeted(&mut net);
        net.start_tls(who, authority.client(None, version));
        works(&mut net, who, HeaderStyle::Simple);
        net.send(who, request(RequestType::Disconnect, 9, 0, 0), &[]);
        net.turn();
        assert!(net.is_closed(who));
        assert!(net.tls(who).ended && net.tls(who).error.is_none());
    }
}

#[test]
fn a_handshake_that_never_ends_is_bounded_in_size_and_time() {
    let mut net = net(Authority::new().serve(None));
    // Pieces of a message that is to be of 16 MiB; then one that is small, and does not come.
    let endless = [&[22, 3, 1, 4, 0][..], &[1, 255, 255, 255], &[0; 1020]].concat();
    let who = greeted(&mut net);
    net.send_option(who, OptionCode::StartTls, &[]);
    net.turn();
    let mut sent = 0;
    while !net.is_closed(who) {
        net.send_raw(who, &endless);
        net.turn();
        sent += endless.len();
        assert!(sent < 100 << 10, "{sent} bytes were taken");
    }
    let who = greeted(&mut net);
    net.send_option(who, OptionCode::StartTls, &[]);
    net.send_raw(who, &[]);
    net.turn();
    for second in 0.. {
        if net.is_closed(who) {
            break;
        }
        assert!(second <= 60, "it waits for {second} seconds");
        net.pass(Duration::from_secs(1));
    }
    assert_eq!(net.machine.counters().given_up, 2);
}

#[test]
fn half_a_record_is_given_up_and_an_idle_connection_is_not() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None));
    let [idle, half] = [(); 2].map(|()| {
        let who = greeted(&mut net);
        net.start_tls(who, authority.client(None, &TLS13));
        works(&mut net, who, HeaderStyle::Simple);
        who
    });
    net.send_raw(half, &[23, 3, 3, 1]);
    (0..100).for_each(|_| net.pass(Duration::from_secs(1)));
    assert!(net.is_closed(half));
    assert!(!net.is_closed(idle));
    assert_eq!(net.read(idle, 4096, 10), Reply::Data(pattern(10)));
}

#[test]
fn a_client_that_never_reads_is_not_read_from() {
    let authority = Authority::new();
    let mut net = net(authority.serve(None));
    net.takes = true;
    let who = greeted(&mut net);
    net.start_tls(who, authority.client(None, &TLS13));
    net.go(who, "disk");
    net.set_reading(who, false);
    for cookie in 0..120 {
        net.send(who, request(RequestType::Read, cookie, 0, 1 << 20), &[]);
    }
    net.turn();
    let answered = net.machine.counters().requests;
    assert!((64..=70).contains(&answered), "{answered} MiB wait");
    net.set_reading(who, true);
    assert_eq!(net.replies(who).len(), 120);
}

#[test]
fn what_is_no_certificate_and_no_key_is_refused_with_what_to_do() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, stranger) = (authority.sign_server(), other.sign_server());
    let refused = |chain: &str, key: &str, clients: Option<&str>| {
        let tls = Tls::new(chain.as_bytes(), key.as_bytes(), clients.map(str::as_bytes));
        tls.expect_err("it is refused").to_string()
    };
    let (chain, key) = (&server.certificate[..], &server.key[..]);
    for (said, words) in [
        (refused("", key, None), "no certificate"),
        (refused(key, key, None), "no certificate"),
        (refused("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----", key, None), "PEM"),
        (refused(chain, "", None), "without a password"),
        (refused(chain, &stranger.key, None), "belong together"),
        (refused(chain, key, Some("")), "authority of the clients"),
        (refused(chain, key, Some(key)), "authority of the clients"),
    ] {
        assert!(said.contains(words), "{said:?} does not say {words:?}");
    }
}
