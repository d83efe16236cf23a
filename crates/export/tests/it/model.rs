//! Random requests, pipelined and cut at random places, against a model of the disk; and connections that end anywhere.

use crate::support::devices::Late;
use crate::support::{Net, Reply, STYLES, Who, request};
use onego_block::{Geometry, Memory};
use onego_nbd::codec::{
    ClientFlags, CommandFlags, HeaderStyle, InfoQuery, OptionCode, OptionHeader, RequestType,
};
use proptest::prelude::*;
use std::rc::Rc;

const SIZE: u64 = 200_000;

/// A request, and what the model says of it.
#[derive(Debug, Clone)]
enum Op {
    Read(u64, u64),
    Write(u64, u64, u8),
    Zero(u64, u64, bool),
    Trim(u64, u64),
    Flush,
    Status(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (0..SIZE, prop_oneof![1..600_u64, 1..70_000_u64]);
    prop_oneof![
        3 => range().prop_map(|(at, len)| Op::Read(at, len)),
        3 => (range(), any::<u8>()).prop_map(|((at, len), byte)| Op::Write(at, len, byte)),
        1 => (range(), any::<bool>()).prop_map(|((at, len), no_hole)| Op::Zero(at, len, no_hole)),
        1 => range().prop_map(|(at, len)| Op::Trim(at, len)),
        1 => Just(Op::Flush),
        1 => range().prop_map(|(at, len)| Op::Status(at, len)),
    ]
}

/// What a disk in memory reads as; the writes are in the order in which they were sent.
struct Model(Vec<u8>);

impl Model {
    fn part(&mut self, at: u64, len: u64) -> Option<&mut [u8]> {
        self.0.get_mut(at as usize..(at + len) as usize)
    }

    /// Sends a request, and says which reply it has to get. `None`: any but an error.
    fn send(&mut self, net: &mut Net, who: Who, style: HeaderStyle, cookie: u64, op: &Op) -> Expected {
        let mut send = |command, flags, at, len, payload: &[u8]| {
            let header = request(command, cookie, at, len);
            net.send(who, onego_nbd::codec::RequestHeader { flags, ..header }, payload);
        };
        let none = CommandFlags(0);
        match *op {
            Op::Read(at, len) => {
                send(RequestType::Read, none, at, len, &[]);
                self.part(at, len).map_or(Expected::Error, |part| Expected::Data(part.to_vec()))
            }
            Op::Write(at, len, byte) => {
                let data: Vec<u8> = (0..len).map(|n| byte.wrapping_add(n as u8)).collect();
                send(RequestType::Write, none, at, len, &data);
                self.part(at, len).map_or(Expected::Error, |part| {
                    part.copy_from_slice(&data);
                    Expected::Done
                })
            }
            Op::Zero(at, len, no_hole) => {
                send(RequestType::WriteZeroes, none.with(CommandFlags::NO_HOLE, no_hole), at, len, &[]);
                self.zero(at, len)
            }
            Op::Trim(at, len) => {
                send(RequestType::Trim, none, at, len, &[]);
                self.zero(at, len)
            }
            Op::Flush => {
                send(RequestType::Flush, none, 0, 0, &[]);
                Expected::Done
            }
            Op::Status(at, len) => {
                send(RequestType::BlockStatus, none, at, len, &[]);
                match style == HeaderStyle::Simple || self.part(at, len).is_none() {
                    true => Expected::Error,
                    false => Expected::Status(self.part(at, len).unwrap().to_vec()),
                }
            }
        }
    }

    fn zero(&mut self, at: u64, len: u64) -> Expected {
        self.part(at, len).map_or(Expected::Error, |part| {
            part.fill(0);
            Expected::Done
        })
    }
}

#[derive(Debug)]
enum Expected {
    Done,
    Data(Vec<u8>),
    /// Runs that are told to be zeros are zeros in these bytes.
    Status(Vec<u8>),
    Error,
}

impl Expected {
    fn check(&self, reply: &Reply) {
        match (self, reply) {
            (Self::Done, Reply::Done) | (Self::Error, Reply::Error(_)) => {}
            (Self::Data(data), Reply::Data(read)) => assert!(data == read, "other bytes were read"),
            (Self::Status(data), Reply::Status(runs)) => {
                let mut at = 0;
                for run in runs {
                    let bytes = &data[at..at + run.length as usize];
                    assert!(!run.status.zero || bytes.iter().all(|byte| *byte == 0));
                    at += bytes.len();
                }
                assert!(at > 0 && at <= data.len());
            }
            _ => panic!("{self:?} was expected and {reply:?} came"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_disk_reads_as_what_was_written_however_requests_are_cut(
        ops in prop::collection::vec(op(), 1..60),
        cut in prop_oneof![1..100_usize, 100..100_000_usize],
        max_io in prop_oneof![Just(32_u64 << 20), 1000..20_000_u64],
        style in prop::sample::select(STYLES.to_vec()),
    ) {
        let mut geometry = Geometry::new(SIZE);
        geometry.max_io = max_io;
        let mut net = Net::new(Rc::new(Memory::new(geometry)));
        let who = net.open(style);
        net.cut = cut;
        let mut model = Model(vec![0; SIZE as usize]);
        // A disk that answers at once carries steps of one turn out in their order only if they are all started in it. So
        // requests of more steps are not sent together with others.
        let together = if max_io > 70_000 { 16 } else { 1 };
        for (batch, ops) in ops.chunks(together).enumerate() {
            let first = (batch * together) as u64;
            let expected: Vec<Expected> = ops
                .iter()
                .enumerate()
                .map(|(n, op)| model.send(&mut net, who, style, first + n as u64, op))
                .collect();
            let replies = net.replies(who);
            prop_assert_eq!(replies.len(), expected.len());
            for (cookie, reply) in &replies {
                expected[(cookie - first) as usize].check(reply);
            }
        }
        prop_assert_eq!(net.machine.in_flight(), 0);
    }

    #[test]
    fn replies_of_a_device_that_answers_in_any_order_go_to_their_requests(
        order in prop::collection::vec(any::<prop::sample::Index>(), 200),
        style in prop::sample::select(STYLES.to_vec()),
    ) {
        let device = Rc::new(Late::new(Geometry::new(SIZE)));
        let mut net = Net::new(Rc::clone(&device) as _);
        let clients = [net.open(style), net.open(style)];
        let mut replies = [Vec::new(), Vec::new()];
        let mut order = order.into_iter();
        for round in 0..40_u64 {
            for (n, who) in clients.iter().enumerate() {
                // Places of the clients are apart, so that the order makes no difference.
                let at = (round / 2 * 2000 + n as u64 * 100_000) % SIZE;
                let write = round % 2 == 0;
                let command = if write { RequestType::Write } else { RequestType::Read };
                let payload = if write { vec![round as u8 + 1; 1000] } else { Vec::new() };
                net.send(*who, request(command, round, at, 1000), &payload);
            }
            net.turn();
            // Reads come after the writes that they are to see.
            let keep = if round % 2 == 0 { 0 } else { 3 };
            while device.held() > keep {
                let at = order.next().map_or(0, |index| index.index(device.held()));
                device.complete(net.now, at);
            }
            for (who, all) in clients.iter().zip(&mut replies) {
                all.extend(net.replies(*who));
            }
        }
        device.complete_all(net.now);
        for (who, all) in clients.iter().zip(&mut replies) {
            all.extend(net.replies(*who));
            prop_assert_eq!(all.len(), 40);
            for (cookie, reply) in all {
                let expected = if *cookie % 2 == 0 { Reply::Done } else { Reply::Data(vec![*cookie as u8; 1000]) };
                prop_assert_eq!(reply.clone(), expected);
            }
        }
        prop_assert_eq!(net.machine.in_flight(), 0);
    }
}

/// A whole session as its client sends it.
fn session(style: HeaderStyle) -> Vec<u8> {
    let mut bytes = (ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES).0.to_be_bytes().to_vec();
    let mut option = |code, data: &[u8]| {
        bytes.extend(OptionHeader { code, length: data.len() as u32 }.encode());
        bytes.extend(data);
    };
    match style {
        HeaderStyle::Simple => {}
        HeaderStyle::Structured => option(OptionCode::StructuredReply, &[]),
        HeaderStyle::Extended => option(OptionCode::ExtendedHeaders, &[]),
    }
    option(OptionCode::Go, &InfoQuery { name: b"disk", wanted: Vec::new() }.encode());
    let mut send = |header: onego_nbd::codec::RequestHeader, payload: &[u8]| {
        let is_marked = style == HeaderStyle::Extended && !payload.is_empty();
        let flags = header.flags.with(CommandFlags::PAYLOAD_LEN, is_marked);
        bytes.extend(onego_nbd::codec::RequestHeader { flags, ..header }.encode(style));
        bytes.extend(payload);
    };
    send(request(RequestType::Write, 1, 0, 100), &[1; 100]);
    send(request(RequestType::Write, 2, 100, 17_000), &[2; 17_000]);
    send(request(RequestType::Read, 3, 0, 500), &[]);
    bytes
}

#[test]
fn a_connection_that_ends_after_any_byte_leaves_nothing() {
    for style in STYLES {
        let bytes = session(style);
        let device = Rc::new(Late::new(Geometry::new(SIZE)));
        let mut net = Net::new(Rc::clone(&device) as _);
        let mut came = 0;
        for end in (0..400).chain((400..bytes.len()).step_by(997)).chain([bytes.len()]) {
            let who = net.connect();
            net.send_bytes(who, &bytes[..end]);
            net.turn();
            net.disconnect(who);
            came += device.held();
            assert_eq!(net.machine.in_flight() > 0, device.held() > 0);
            // A connection that comes then gets nothing of it.
            let next = net.open(style);
            device.complete_all(net.now);
            net.send(next, request(RequestType::Flush, 9, 0, 0), &[]);
            net.turn();
            device.complete_all(net.now);
            assert_eq!(net.replies(next), [(9, Reply::Done)]);
            net.disconnect(next);
            assert_eq!((net.machine.in_flight(), net.machine.connections()), (0, 0));
        }
        assert!(came > 3, "requests were in flight");
    }
}
