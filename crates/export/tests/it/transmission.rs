//! Every command, right and wrong, in all three header styles.

use crate::support::devices::Late;
use crate::support::{Net, Reply, STYLES, Who, export, request};
use onego_block::{BlockStatus, Geometry, Memory, Null, StatusExtent};
use onego_export::nbd::Export;
use onego_nbd::codec::{CommandFlags, ErrorCode, HeaderStyle, RequestHeader, RequestType, StatusPayload};
use onego_wire::Machine as _;
use std::rc::Rc;
use std::time::Duration;

const SIZE: u64 = 1 << 20;

fn net() -> Net {
    Net::new(Rc::new(Memory::new(Geometry::new(SIZE))))
}

fn geometry(size: u64, set: impl FnOnce(&mut Geometry)) -> Geometry {
    let mut geometry = Geometry::new(size);
    set(&mut geometry);
    geometry
}

fn with(flags: CommandFlags, header: RequestHeader) -> RequestHeader {
    RequestHeader { flags, ..header }
}

/// The code of the error that a request fails with, and that the session goes on.
fn error(net: &mut Net, who: Who, header: RequestHeader, payload: &[u8]) -> ErrorCode {
    let Reply::Error(code) = net.call(who, header, payload) else { panic!("{header:?} does not fail") };
    assert_eq!(net.read(who, 0, 1), Reply::Data(vec![0]), "the session goes on after {header:?}");
    code
}

#[test]
fn what_was_written_is_read_in_all_styles_and_sizes() {
    for style in STYLES {
        let mut net = net();
        let who = net.open(style);
        for (n, len) in [1, 100, 16_383, 16_384, 16_385, 300_000].into_iter().enumerate() {
            let data: Vec<u8> = (0..len).map(|at| (at * 7 + n) as u8).collect();
            assert_eq!(net.write(who, 1000 + n as u64, &data), Reply::Done);
            assert_eq!(net.read(who, 1000 + n as u64, len as u64), Reply::Data(data));
        }
        let counters = net.machine.counters();
        assert_eq!((counters.read, counters.written), (349_253, 349_253));
        assert_eq!((counters.requests, counters.errors), (12, 0));
    }
}

#[test]
fn all_other_commands_are_carried_out() {
    for style in STYLES {
        let mut net = net();
        let who = net.open(style);
        net.write(who, 0, &[7; 5000]);
        assert_eq!(net.call(who, request(RequestType::Flush, 1, 0, 0), &[]), Reply::Done);
        assert_eq!(net.call(who, request(RequestType::Trim, 2, 0, 1000), &[]), Reply::Done);
        assert_eq!(net.call(who, request(RequestType::Cache, 3, 0, 1000), &[]), Reply::Done);
        assert_eq!(net.call(who, request(RequestType::WriteZeroes, 4, 1000, 1000), &[]), Reply::Done);
        let no_hole =
            with(CommandFlags::NO_HOLE | CommandFlags::FUA, request(RequestType::WriteZeroes, 5, 2000, 500));
        assert_eq!(net.call(who, no_hole, &[]), Reply::Done);
        let expected = [vec![0; 2500], vec![7; 2500]].concat();
        assert_eq!(net.read(who, 0, 5000), Reply::Data(expected));
        let fua = with(CommandFlags::FUA, request(RequestType::Read, 6, 0, 2));
        assert_eq!(net.call(who, fua, &[]), Reply::Data(vec![0, 0]), "FUA goes with every command");
        let fast = with(CommandFlags::FAST_ZERO | CommandFlags::NO_HOLE, no_hole);
        assert_eq!(error(&mut net, who, fast, &[]), ErrorCode::NotSupported);
        let fast = with(CommandFlags::FAST_ZERO, no_hole);
        assert_eq!(net.call(who, fast, &[]), Reply::Done);
    }
}

#[test]
fn changes_reach_the_device_with_fua_if_they_have_it() {
    for style in STYLES {
        let device = Rc::new(Late::new(Geometry::new(SIZE)));
        let mut net = Net::new(Rc::clone(&device) as _);
        let who = net.open(style);
        for fua in [CommandFlags::FUA, CommandFlags::default()] {
            for command in [RequestType::Write, RequestType::WriteZeroes, RequestType::Trim] {
                let is_write = command == RequestType::Write;
                let has_length = is_write && style == HeaderStyle::Extended;
                let flags = if has_length { fua | CommandFlags::PAYLOAD_LEN } else { fua };
                let payload = if is_write { &[7; 512][..] } else { &[] };
                net.send(who, with(flags, request(command, 1, 0, 512)), payload);
                net.turn();
                assert_eq!(device.are_fua(), [fua == CommandFlags::FUA], "{command:?}, {style:?}");
                device.complete_all(net.now);
                net.turn();
                assert!(matches!(net.replies(who)[..], [(_, Reply::Done)]));
            }
        }
    }
}

#[test]
fn requests_of_no_bytes_are_answered() {
    for style in STYLES {
        let mut net = net();
        let who = net.open(style);
        let nothing = if style == HeaderStyle::Simple { Reply::Data(Vec::new()) } else { Reply::Done };
        assert_eq!(net.read(who, SIZE, 0), nothing);
        for command in [RequestType::Write, RequestType::Trim, RequestType::WriteZeroes, RequestType::Cache] {
            let mut header = request(command, 1, 5, 0);
            if style == HeaderStyle::Extended && command == RequestType::Write {
                header.flags = CommandFlags::PAYLOAD_LEN;
            }
            assert_eq!(net.call(who, header, &[]), Reply::Done, "{command:?}");
        }
        let status = request(RequestType::BlockStatus, 1, 0, 0);
        assert_eq!(error(&mut net, who, status, &[]), ErrorCode::Invalid);
    }
}

#[test]
fn requests_beyond_the_end_fail_as_the_protocol_says() {
    for style in STYLES {
        let mut net = net();
        let who = net.open(style);
        for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (0, SIZE + 1), (u64::MAX - 3, 5)] {
            let payload = vec![1; length as usize];
            let mut code =
                |command, payload: &[u8]| error(&mut net, who, request(command, 9, offset, length), payload);
            assert_eq!(code(RequestType::Read, &[]), ErrorCode::Invalid);
            assert_eq!(code(RequestType::Write, &payload), ErrorCode::NoSpace);
            assert_eq!(code(RequestType::WriteZeroes, &[]), ErrorCode::NoSpace);
            assert_eq!(code(RequestType::Trim, &[]), ErrorCode::Invalid);
            assert_eq!(code(RequestType::Cache, &[]), ErrorCode::Invalid);
            assert_eq!(code(RequestType::BlockStatus, &[]), ErrorCode::Invalid);
        }
    }
}

#[test]
fn unknown_commands_and_flags_fail_and_their_payload_is_skipped() {
    for style in STYLES {
        let mut net = net();
        let who = net.open(style);
        let mut code = |flags, command, payload: &[u8]| {
            let header = with(CommandFlags(flags), request(command, 9, 0, payload.len() as u64));
            error(&mut net, who, header, payload)
        };
        assert_eq!(code(0, RequestType::Unknown(8), &[]), ErrorCode::Invalid);
        assert_eq!(code(1 << 9, RequestType::Write, &[1; 100]), ErrorCode::Invalid);
        assert_eq!(code(1 << 9, RequestType::Write, &vec![1; 100_000]), ErrorCode::Invalid);
        assert_eq!(code(CommandFlags::NO_HOLE.0, RequestType::Trim, &[]), ErrorCode::Invalid);
        assert_eq!(code(CommandFlags::DF.0, RequestType::Flush, &[]), ErrorCode::Invalid);
        assert_eq!(code(CommandFlags::REQ_ONE.0, RequestType::Cache, &[]), ErrorCode::Invalid);
        let payload_len = CommandFlags::PAYLOAD_LEN.0;
        if style == HeaderStyle::Extended {
            assert_eq!(code(payload_len, RequestType::Trim, &[5; 77]), ErrorCode::Invalid);
            assert_eq!(code(payload_len, RequestType::Unknown(99), &[5; 77_000]), ErrorCode::Invalid);
            // A write has its payload also if no flag says so: QEMU's client sets none.
            let unmarked = request(RequestType::Write, 3, 4096, 10).encode(style);
            net.send_bytes(who, &[&unmarked[..], &[7; 10]].concat());
            assert_eq!(net.replies(who), [(3, Reply::Done)]);
            assert_eq!(net.read(who, 4096, 10), Reply::Data(vec![7; 10]));
        } else {
            assert_eq!(code(payload_len, RequestType::Write, &[5; 77]), ErrorCode::Invalid);
        }
        let flush = request(RequestType::Flush, 1, 0, 5);
        assert_eq!(error(&mut net, who, flush, &[]), ErrorCode::Invalid);
        let df = with(CommandFlags::DF, request(RequestType::Read, 1, 0, 5));
        let taken = net.call(who, df, &[]) == Reply::Data(vec![0; 5]);
        assert_eq!(taken, style != HeaderStyle::Simple);
    }
}

#[test]
fn a_wrong_magic_ends_the_session() {
    for style in STYLES {
        let mut net = net();
        let who = net.open(style);
        net.send_bytes(who, &[0x25; 32]);
        net.turn();
        assert!(net.is_closed(who));
        assert_eq!(net.machine.in_flight(), 0);
    }
}

#[test]
fn too_long_payloads_are_skipped_or_end_the_session() {
    let length = (32 << 20) + 1;
    for style in STYLES {
        let mut net = Net::new(Rc::new(Null::new(Geometry::new(1 << 40))));
        let who = net.open(style);
        let read = net.read(who, 0, length);
        let expected = if style == HeaderStyle::Simple { ErrorCode::Invalid } else { ErrorCode::Overflow };
        assert_eq!(read, Reply::Error(expected));
        net.send(who, request(RequestType::Write, 3, 0, length), &vec![1; length as usize]);
        if style == HeaderStyle::Extended {
            net.turn();
            assert!(net.is_closed(who));
        } else {
            assert_eq!(net.replies(who), [(3, Reply::Error(ErrorCode::Invalid))]);
            assert_eq!(net.read(who, 0, 1), Reply::Data(vec![0]));
        }
    }
}

#[test]
fn a_read_only_export_is_not_changed() {
    for style in STYLES {
        let mut net = Net::with(Default::default());
        let device = Rc::new(Memory::new(Geometry::new(SIZE)));
        net.machine.add_export(Export { read_only: true, ..export("disk", device) }).unwrap();
        let who = net.open(style);
        for command in [RequestType::Write, RequestType::WriteZeroes, RequestType::Trim] {
            let payload = if command == RequestType::Write { vec![1; 20_000] } else { Vec::new() };
            let header = request(command, 1, 0, 20_000);
            assert_eq!(error(&mut net, who, header, &payload), ErrorCode::Permission);
        }
    }
}

#[test]
fn unaligned_requests_fail() {
    let small = geometry(SIZE, |geometry| geometry.block = 512);
    let mut net = Net::new(Rc::new(Memory::new(small)));
    let who = net.open(HeaderStyle::Structured);
    for (offset, length) in [(1, 512), (512, 1), (256, 256)] {
        let header = request(RequestType::Read, 1, offset, length);
        assert_eq!(net.call(who, header, &[]), Reply::Error(ErrorCode::Invalid));
    }
    assert_eq!(net.read(who, 512, 512), Reply::Data(vec![0; 512]));
}

#[test]
fn the_status_of_bytes_is_told_in_runs() {
    let run = |length, status| StatusExtent { length, status };
    for style in [HeaderStyle::Structured, HeaderStyle::Extended] {
        let mut net = net();
        let who = net.open(style);
        net.write(who, 4096, &[1; 8192]);
        let status = request(RequestType::BlockStatus, 1, 0, 20_000);
        let runs = [
            run(4096, BlockStatus::HOLE),
            run(8192, BlockStatus::DATA),
            run(20_000 - 12_288, BlockStatus::HOLE),
        ];
        assert_eq!(net.call(who, status, &[]), Reply::Status(runs.to_vec()));
        let one = with(CommandFlags::REQ_ONE, request(RequestType::BlockStatus, 1, 5000, 100));
        assert_eq!(net.call(who, one, &[]), Reply::Status(vec![run(100, BlockStatus::DATA)]));
        let one = with(CommandFlags::REQ_ONE, request(RequestType::BlockStatus, 1, 4000, 10_000));
        assert_eq!(net.call(who, one, &[]), Reply::Status(vec![run(96, BlockStatus::HOLE)]));
    }
    let mut net = net();
    let who = net.open(HeaderStyle::Extended);
    let asked = |length, contexts: &[u32]| StatusPayload { length, contexts: contexts.to_vec() }.encode();
    let mut narrowed = |payload: &[u8]| {
        let header = request(RequestType::BlockStatus, 1, 0, payload.len() as u64);
        net.call(who, with(CommandFlags::PAYLOAD_LEN, header), payload)
    };
    assert_eq!(narrowed(&asked(4096, &[1])), Reply::Status(vec![run(4096, BlockStatus::HOLE)]));
    let refused = Reply::Error(ErrorCode::Invalid);
    let too_many = [1; 50];
    let wrong =
        [asked(4096, &[]), asked(4096, &[2]), asked(4096, &[1, 1]), asked(SIZE + 1, &[1]), vec![0; 7]];
    for payload in wrong.into_iter().chain([asked(4096, &too_many), vec![0; 9], asked(0, &[1])]) {
        assert_eq!(narrowed(&payload), refused, "{payload:?}");
    }
}

#[test]
fn a_device_of_small_requests_gets_large_ones_in_steps() {
    for style in STYLES {
        let small = geometry(SIZE, |geometry| geometry.max_io = 1000);
        let device = Rc::new(Late::new(small));
        let mut net = Net::new(Rc::clone(&device) as _);
        let who = net.open(style);
        let data: Vec<u8> = (0..30_500).map(|at| (at % 251) as u8).collect();
        let mut call = |header, payload: &[u8]| {
            net.send(who, header, payload);
            net.turn();
            let mut most = 0;
            while device.held() > 0 {
                most = most.max(device.held());
                device.complete(net.now, device.held() - 1);
                net.turn();
            }
            assert!((1..=4).contains(&most), "{most} steps at a time");
            net.replies(who)
        };
        let write = call(request(RequestType::Write, 1, 500, 30_500), &data);
        assert_eq!(write, [(1, Reply::Done)]);
        let read = call(request(RequestType::Read, 2, 500, 30_500), &[]);
        assert_eq!(read, [(2, Reply::Data(data))]);
        let zero = with(CommandFlags::FAST_ZERO, request(RequestType::WriteZeroes, 3, 0, 40_000));
        assert_eq!(call(zero, &[]), [(3, Reply::Done)]);
        let read = call(request(RequestType::Read, 4, 0, 40_000), &[]);
        assert_eq!(read, [(4, Reply::Data(vec![0; 40_000]))]);
        assert_eq!(net.machine.in_flight(), 0);
    }
}

#[test]
fn errors_of_devices_are_told() {
    for style in STYLES {
        let device = Rc::new(Late::new(geometry(SIZE, |geometry| geometry.max_io = 1000)));
        let mut net = Net::new(Rc::clone(&device) as _);
        let who = net.open(style);
        net.send(who, request(RequestType::Read, 1, 0, 3000), &[]);
        net.send(who, request(RequestType::Write, 2, 10_000, 3), b"abc");
        net.turn();
        device.complete(net.now, 0);
        device.drop_all();
        let replies = net.replies(who);
        let failed = Reply::Error(ErrorCode::Shutdown);
        assert_eq!(replies.len(), 2);
        assert!(replies.iter().all(|(_, reply)| *reply == failed), "{replies:?}");
        assert_eq!((net.machine.in_flight(), net.machine.counters().errors), (0, 2));
    }
}

#[test]
fn a_client_that_leaves_gets_its_last_replies() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut net = Net::new(Rc::clone(&device) as _);
    let who = net.open(HeaderStyle::Simple);
    net.send(who, request(RequestType::Read, 1, 0, 10), &[]);
    net.send(who, request(RequestType::Disconnect, 2, 0, 0), &[]);
    net.send(who, request(RequestType::Read, 3, 0, 10), &[]);
    net.turn();
    assert!(!net.is_closed(who), "a request is in flight");
    device.complete_all(net.now);
    assert_eq!(
        net.replies(who),
        [(1, Reply::Data(vec![0; 10]))],
        "what is behind the last request is not read"
    );
    assert!(net.is_closed(who));
    for (style, flags) in STYLES.into_iter().flat_map(|style| [(style, 0), (style, u16::MAX)]) {
        let idle = net.open(style);
        net.send(idle, with(CommandFlags(flags), request(RequestType::Disconnect, 2, 0, u64::MAX)), &[]);
        assert_eq!(net.came(idle), [], "nothing is said to that, whatever its fields");
        assert!(net.is_closed(idle) && net.machine.connections() == 0);
    }
}

#[test]
fn an_export_that_is_removed_refuses_what_comes_and_ends_what_is_in_flight() {
    for style in STYLES {
        let device = Rc::new(Late::new(Geometry::new(SIZE)));
        let mut net = Net::new(Rc::clone(&device) as _);
        let who = net.open(style);
        net.send(who, request(RequestType::Write, 1, 0, 3), b"abc");
        net.turn();
        assert!(net.machine.remove_export("disk") && !net.machine.remove_export("disk"));
        for command in [RequestType::Read, RequestType::Flush, RequestType::Write] {
            let payload = vec![0; if command == RequestType::Write { 50_000 } else { 0 }];
            let length = if command == RequestType::Write { 50_000 } else { 0 };
            let reply = net.call(who, request(command, 9, 0, length), &payload);
            assert_eq!(reply, Reply::Error(ErrorCode::Shutdown));
        }
        device.complete_all(net.now);
        assert_eq!(net.replies(who), [(1, Reply::Done)]);
        net.send(who, request(RequestType::Disconnect, 2, 0, 0), &[]);
        net.turn();
        assert!(net.is_closed(who));
        net.pass(Duration::from_secs(1));
        assert_eq!(Rc::strong_count(&device), 1, "nothing keeps the device");
    }
}

#[test]
fn a_device_that_grows_or_shrinks_is_held_to_its_size() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut net = Net::new(Rc::clone(&device) as _);
    let who = net.open(HeaderStyle::Simple);
    device.resize(1000);
    let read = request(RequestType::Read, 1, 990, 20);
    assert_eq!(net.call(who, read, &[]), Reply::Error(ErrorCode::Invalid));
    let later = net.connect();
    assert_eq!(net.open_on(later, HeaderStyle::Simple).size, 1000);
    device.resize(SIZE);
    net.send(who, read, &[]);
    net.turn();
    device.complete_all(net.now);
    assert_eq!(net.replies(who), [(1, Reply::Data(vec![0; 20]))]);
}

#[test]
fn devices_that_wait_are_called_in_time() {
    let device = Rc::new(Late::with_delay(Geometry::new(SIZE), Duration::from_millis(5)));
    let mut net = Net::new(Rc::clone(&device) as _);
    let who = net.open(HeaderStyle::Simple);
    net.send(who, request(RequestType::Read, 1, 0, 20), &[]);
    assert_eq!(net.replies(who), []);
    assert_eq!(net.machine.deadline(), Some(net.now + Duration::from_millis(5)));
    net.pass(Duration::from_millis(5));
    assert_eq!(net.replies(who), [(1, Reply::Data(vec![0; 20]))]);
}

#[test]
fn neighbours_in_one_delivery_are_one_request_to_the_device() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut net = Net::new(Rc::clone(&device) as _);
    let who = net.open(HeaderStyle::Simple);
    for n in 0..4 {
        net.send(who, request(RequestType::Write, n, n * 4096, 4096), &[n as u8; 4096]);
    }
    net.turn();
    assert_eq!(device.held(), 1, "{:?}", device.requests());
    device.complete_all(net.now);
    assert_eq!(net.replies(who).len(), 4);
}
