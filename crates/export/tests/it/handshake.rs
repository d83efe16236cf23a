//! Every option, right and wrong.

use crate::support::{Net, Reply, Who, export, request};
use onego_block::{Geometry, Memory};
use onego_export::nbd::{Config, Export, ExportError};
use onego_nbd::codec::{
    BlockSizes, ClientFlags, ErrorCode, ExportInfo, HeaderStyle, InfoItem, InfoQuery, InfoType, MetaContext,
    MetaQuery, OptionCode, OptionError, OptionHeader, OptionReplyType, RequestType, ServerEntry,
    TransmissionFlags,
};
use onego_wire::Reader;
use std::rc::Rc;
use std::time::Duration;

type Flags = TransmissionFlags;
const SIZE: u64 = 1 << 20;

fn memory() -> Rc<Memory> {
    Rc::new(Memory::new(Geometry::new(SIZE)))
}

fn net() -> Net {
    Net::new(memory())
}

fn greeted(net: &mut Net) -> Who {
    let who = net.connect();
    net.greet(who, ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES);
    who
}

fn go(name: &str) -> Vec<u8> {
    InfoQuery { name: name.as_bytes(), wanted: Vec::new() }.encode()
}

fn refused(error: OptionError) -> OptionReplyType {
    OptionReplyType::Error(error)
}

#[test]
fn an_export_is_chosen_by_its_name_with_and_without_zeroes() {
    for (flags, zeroes) in [(ClientFlags::NO_ZEROES, 0), (ClientFlags(0), ExportInfo::ZEROES)] {
        let mut net = net();
        let who = net.connect();
        net.greet(who, flags);
        net.send_option(who, OptionCode::ExportName, b"disk");
        let came = net.came(who);
        assert_eq!(came.len(), ExportInfo::LEN + zeroes);
        let info = ExportInfo::decode(&mut Reader::new(&came)).unwrap();
        assert_eq!(info.size, SIZE);
        assert!(came[ExportInfo::LEN..].iter().all(|byte| *byte == 0));
        assert_eq!(net.write(who, 5, b"abc"), Reply::Done);
        assert_eq!(net.read(who, 4, 5), Reply::Data(b"\0abc\0".to_vec()));
    }
}

#[test]
fn an_export_name_that_is_not_there_ends_the_session() {
    let mut net = net();
    for name in [&b"other"[..], &[b'x'; 5000], b"\xff\xfe"] {
        let who = greeted(&mut net);
        net.send_option(who, OptionCode::ExportName, name);
        assert!(net.came(who).is_empty());
        assert!(net.is_closed(who));
    }
}

#[test]
fn the_empty_name_is_the_only_export_or_the_one_of_that_name() {
    let mut net = net();
    let who = greeted(&mut net);
    assert_eq!(net.outcome(who, OptionCode::Info, &go("")), OptionReplyType::Ack);
    net.machine.add_export(export("other", memory())).unwrap();
    assert_eq!(net.outcome(who, OptionCode::Info, &go("")), refused(OptionError::Unknown));
    net.machine.add_export(export("", Rc::new(Memory::new(Geometry::new(99))))).unwrap();
    assert_eq!(net.go(who, "").size, 99);
}

#[test]
fn flags_that_nobody_knows_end_the_session() {
    let mut net = net();
    let who = net.connect();
    net.greet(who, ClientFlags(4));
    net.turn();
    assert!(net.is_closed(who));
}

#[test]
fn abort_is_acknowledged_and_data_with_it_is_ignored() {
    let mut net = net();
    let who = greeted(&mut net);
    assert_eq!(net.option(who, OptionCode::Abort, b"data"), [(OptionReplyType::Ack, Vec::new())]);
    assert!(net.is_closed(who));
    // A client that closes at once gets nothing, and nothing is left of it.
    let who = greeted(&mut net);
    net.send_option(who, OptionCode::Abort, &[]);
    net.disconnect(who);
    assert_eq!(net.machine.connections(), 0);
}

#[test]
fn exports_are_listed_with_their_descriptions() {
    let mut net = net();
    net.machine.add_export(export("b", memory())).unwrap();
    let who = greeted(&mut net);
    let replies = net.option(who, OptionCode::List, &[]);
    let listed: Vec<ServerEntry<'_>> =
        replies[..2].iter().map(|(_, data)| ServerEntry::decode(data).unwrap()).collect();
    let entry = |name, description| ServerEntry { name, description };
    assert_eq!(listed, [entry(b"disk", b"the export disk"), entry(b"b", b"the export b")]);
    assert_eq!(replies[2], (OptionReplyType::Ack, Vec::new()));
    assert_eq!(net.outcome(who, OptionCode::List, b"x"), refused(OptionError::Invalid));
    assert_eq!(net.machine.exports().collect::<Vec<_>>(), ["disk", "b"]);
}

#[test]
fn unknown_options_are_skipped_with_their_data() {
    let mut net = net();
    let who = greeted(&mut net);
    for code in [OptionCode::Unknown(4), OptionCode::Unknown(77), OptionCode::StartTls] {
        assert_eq!(net.outcome(who, code, b"some data"), refused(OptionError::Unsupported));
    }
    // More data than is kept is dropped as it comes.
    assert_eq!(net.outcome(who, OptionCode::Go, &vec![1; 100_000]), refused(OptionError::TooBig));
    net.go(who, "disk");
}

#[test]
fn an_option_of_far_too_much_data_ends_the_session() {
    let mut net = net();
    let who = greeted(&mut net);
    net.send_bytes(who, &OptionHeader { code: OptionCode::Info, length: u32::MAX }.encode());
    net.turn();
    assert!(net.is_closed(who));
}

#[test]
fn an_option_with_a_wrong_magic_ends_the_session() {
    let mut net = net();
    let who = greeted(&mut net);
    net.send_bytes(who, &[7; 16]);
    net.turn();
    assert!(net.is_closed(who));
    assert_eq!(net.machine.counters().given_up, 1);
}

#[test]
fn info_tells_what_is_asked_for_and_ignores_what_is_unknown() {
    let mut net = net();
    let who = greeted(&mut net);
    let wanted = [9, 1, 2, 3].map(InfoType::of).to_vec();
    let replies = net.option(who, OptionCode::Info, &InfoQuery { name: b"", wanted }.encode());
    let flags = [Flags::SEND_FLUSH, Flags::SEND_FUA, Flags::SEND_TRIM, Flags::SEND_WRITE_ZEROES];
    let flags = flags.into_iter().fold(Flags::HAS_FLAGS, |flags, flag| flags | flag);
    let flags = flags | Flags::SEND_FAST_ZERO | Flags::CAN_MULTI_CONN;
    let items: Vec<InfoItem<'_>> =
        replies[..4].iter().map(|(_, data)| InfoItem::decode(data).unwrap()).collect();
    let sizes = BlockSizes { minimum: 1, preferred: 4096, payload_max: 32 << 20 };
    let expected = [
        InfoItem::Export(ExportInfo { size: SIZE, flags }),
        InfoItem::Name(b"disk"),
        InfoItem::Description(b"the export disk"),
        InfoItem::BlockSize(sizes),
    ];
    assert_eq!(items, expected);
    assert_eq!(replies[4].0, OptionReplyType::Ack);
    let known = net.outcome(who, OptionCode::Go, &go("nowhere"));
    assert_eq!(known, refused(OptionError::Unknown));
    for cut in 0..go("disk").len() {
        let outcome = net.outcome(who, OptionCode::Go, &go("disk")[..cut]);
        assert_eq!(outcome, refused(OptionError::Invalid));
    }
    let too_long = net.outcome(who, OptionCode::Go, &go(&"x".repeat(4097)));
    assert_eq!(too_long, refused(OptionError::Invalid));
    net.go(who, "disk");
}

#[test]
fn flags_follow_the_device_and_the_export() {
    let mut net = Net::with(Config::default());
    let mut geometry = Geometry::new(1000);
    (geometry.block, geometry.volatile_cache, geometry.read_only) = (512, true, true);
    geometry.shared_flush = false;
    net.machine.add_export(export("cached", Rc::new(Memory::new(geometry)))).unwrap();
    net.machine.add_export(Export { read_only: true, ..export("ro", memory()) }).unwrap();
    geometry.read_only = false;
    let null = Rc::new(onego_block::Null::new(geometry));
    net.machine.add_export(export("null", null)).unwrap();
    let mut info = |name: &str| {
        let who = greeted(&mut net);
        net.ask_style(who, HeaderStyle::Structured);
        net.go(who, name)
    };
    let base = Flags::HAS_FLAGS | Flags::SEND_FLUSH | Flags::SEND_FUA | Flags::SEND_DF;
    // The second block is not there as a whole.
    assert_eq!(info("cached"), ExportInfo { size: 512, flags: base | Flags::READ_ONLY });
    assert_eq!(info("ro").flags, base | Flags::READ_ONLY | Flags::CAN_MULTI_CONN);
    assert_eq!(info("null").flags, base | Flags::SEND_WRITE_ZEROES | Flags::SEND_FAST_ZERO);
}

#[test]
fn structured_replies_and_extended_headers_go_by_their_order() {
    let mut net = net();
    let who = greeted(&mut net);
    for code in [OptionCode::StructuredReply, OptionCode::ExtendedHeaders] {
        assert_eq!(net.outcome(who, code, b"x"), refused(OptionError::Invalid));
        assert_eq!(net.outcome(who, code, &[]), OptionReplyType::Ack);
    }
    let back = net.outcome(who, OptionCode::StructuredReply, &[]);
    assert_eq!(back, refused(OptionError::ExtendedHeadersRequired));
    net.send_option(who, OptionCode::ExportName, b"disk");
    net.turn();
    assert!(net.is_closed(who), "extended headers take GO");
}

#[test]
fn metadata_contexts_are_listed_and_chosen() {
    let mut net = net();
    let who = greeted(&mut net);
    let query = |name: &'static [u8], queries: &[&'static [u8]]| {
        MetaQuery { name, queries: queries.to_vec() }.encode()
    };
    let all = query(b"disk", &[]);
    let (list, set) = (OptionCode::ListMetaContext, OptionCode::SetMetaContext);
    assert_eq!(net.outcome(who, list, &all), refused(OptionError::Invalid), "not without structured replies");
    net.ask_style(who, HeaderStyle::Structured);
    let mut found = |code, data: &[u8]| {
        let replies = net.option(who, code, data);
        assert_eq!(replies.last().unwrap().0, OptionReplyType::Ack);
        for (_, data) in &replies[..replies.len() - 1] {
            assert_eq!(MetaContext::decode(data).unwrap().name, b"base:allocation");
        }
        replies.len() - 1
    };
    assert_eq!(found(list, &all), 1);
    assert_eq!(found(list, &query(b"", &[b"base:"])), 1);
    assert_eq!(found(list, &query(b"disk", &[b"qemu:", b"base:other", b"nonsense"])), 0);
    assert_eq!(found(set, &query(b"disk", &[b"base:allocation", b"qemu:dirty-bitmap:x"])), 1);
    assert_eq!(found(set, &query(b"disk", &[b"base:"])), 0, "the wildcard chooses nothing");
    assert_eq!(found(set, &query(b"disk", &[])), 0);
    let unknown = query(b"other", &[b"base:allocation"]);
    assert_eq!(net.outcome(who, set, &unknown), refused(OptionError::Unknown));
    assert_eq!(net.outcome(who, set, &all[..5]), refused(OptionError::Invalid));
}

#[test]
fn contexts_of_another_export_are_void() {
    for (name, valid) in [("disk", true), ("other", false)] {
        let mut net = net();
        net.machine.add_export(export("other", memory())).unwrap();
        let who = greeted(&mut net);
        net.ask_style(who, HeaderStyle::Structured);
        let query = MetaQuery { name: b"disk", queries: vec![b"base:allocation"] }.encode();
        net.outcome(who, OptionCode::SetMetaContext, &query);
        net.go(who, name);
        let reply = net.call(who, request(RequestType::BlockStatus, 1, 0, 4096), &[]);
        assert_eq!(matches!(reply, Reply::Status(_)), valid, "{reply:?}");
        assert_eq!(reply == Reply::Error(ErrorCode::Invalid), !valid);
    }
}

#[test]
fn contexts_that_fail_to_be_chosen_are_gone() {
    let mut net = net();
    let who = greeted(&mut net);
    net.ask_style(who, HeaderStyle::Structured);
    let query = MetaQuery { name: b"disk", queries: vec![b"base:allocation"] }.encode();
    assert_eq!(net.outcome(who, OptionCode::SetMetaContext, &query), OptionReplyType::Ack);
    net.outcome(who, OptionCode::SetMetaContext, &query[..3]);
    net.go(who, "disk");
    let reply = net.call(who, request(RequestType::BlockStatus, 1, 0, 4096), &[]);
    assert_eq!(reply, Reply::Error(ErrorCode::Invalid));
}

#[test]
fn an_option_after_the_handshake_is_no_request() {
    let mut net = net();
    let who = net.open(HeaderStyle::Simple);
    net.send_bytes(who, &OptionHeader { code: OptionCode::List, length: 100 }.encode());
    net.send_bytes(who, &[0; 100]);
    net.turn();
    assert!(net.is_closed(who));
}

#[test]
fn a_handshake_ends_in_time_or_with_its_connection() {
    let mut net = net();
    let (silent, slow, used) = (net.connect(), greeted(&mut net), net.open(HeaderStyle::Simple));
    net.pass(Duration::from_secs(59));
    assert!(!net.is_closed(silent) && !net.is_closed(slow));
    net.pass(Duration::from_secs(2));
    assert!(net.is_closed(silent) && net.is_closed(slow));
    net.pass(Duration::from_secs(100_000));
    assert_eq!(net.read(used, 0, 1), Reply::Data(vec![0]), "a connection in use may be idle");
}

#[test]
fn one_address_has_half_of_the_connections_and_those_without_an_export_give_way() {
    let config = Config { connections: 8, ..Config::default() };
    let mut net = Net::with(config);
    net.machine.add_export(export("disk", memory())).unwrap();
    let used: Vec<Who> = (0..4).map(|_| net.open(HeaderStyle::Simple)).collect();
    assert!(net.try_connect("10.0.0.2:1000").is_none());
    let idle: Vec<Who> = (0..4).map(|_| net.try_connect("10.0.0.3:1000").unwrap()).collect();
    net.pass(Duration::from_secs(2));
    let other = net.try_connect("10.0.0.4:1000").expect("a handshake gives way");
    net.open_on(other, HeaderStyle::Simple);
    assert_eq!(idle.iter().filter(|who| net.is_closed(**who)).count(), 1);
    assert!(used.iter().all(|who| !net.is_closed(*who)));
    assert_eq!(net.machine.counters().refused, 1);
}

#[test]
fn exports_that_cannot_be_named_are_refused() {
    let mut net = net();
    let mut add = |name: &str| net.machine.add_export(export(name, memory())).unwrap_err();
    assert_eq!(add("disk"), ExportError::Exists("disk".into()));
    assert_eq!(add("a\0b"), ExportError::Name(3));
    assert_eq!(add(&"x".repeat(5000)), ExportError::Name(5000));
    let description = "x".repeat(5000);
    let long = Export { description, ..export("long", memory()) };
    assert_eq!(net.machine.add_export(long).unwrap_err(), ExportError::Description(5000));
    let mut geometry = Geometry::new(1 << 20);
    geometry.block = 128 << 10;
    let coarse = export("coarse", Rc::new(Memory::new(geometry)));
    assert_eq!(net.machine.add_export(coarse).unwrap_err(), ExportError::Block(128 << 10));
}
