//! Every message from its front and data; what was read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_buf::{List, Segment};
use onego_ceph::messages as m;
use onego_ceph::messages::Payload;
use onego_ceph::ops::Op;
use onego_wire::Writer;

fn check<T: Payload + PartialEq + std::fmt::Debug>(version: u16, front: &[u8], data: &[u8]) {
    let Ok(message) = T::decode(version, front, List::from(Segment::copy_from(data))) else { return };
    let (mut w, mut list) = (Writer::new(), List::new());
    message.encode(&mut w, &mut list);
    let again = T::decode(T::VERSION, w.as_slice(), list).expect("what was written can be read");
    assert_eq!(message, again);
}

/// The arguments of an operation that makes no sense are not kept.
fn check_request(version: u16, front: &[u8], data: &[u8]) {
    let is_malformed =
        |request: &m::OsdOp| request.ops.iter().any(|(op, _)| matches!(op, Op::Malformed { .. }));
    match m::OsdOp::decode(version, front, List::from(Segment::copy_from(data))) {
        Ok(request) if is_malformed(&request) => {}
        _ => check::<m::OsdOp>(version, front, data),
    }
}

fuzz_target!(|input: (u8, u8, &[u8], &[u8])| {
    let (kind, version, front, data) = input;
    let version = u16::from(version);
    match kind % 20 {
        0 => check_request(version, front, data),
        1 => check::<m::OsdOpReply>(version, front, data),
        2 => check::<m::MapUpdate>(version, front, data),
        3 => check::<m::Backoff>(version, front, data),
        4 => check::<m::WatchNotify>(version, front, data),
        5 => check::<m::CommandReply>(version, front, data),
        6 => check::<m::Config>(version, front, data),
        7 => check::<m::GetMonMap>(version, front, data),
        8 => check::<m::GetVersion>(version, front, data),
        9 => check::<m::GetVersionReply>(version, front, data),
        10 => check::<m::MonCommand>(version, front, data),
        11 => check::<m::MonMapMessage>(version, front, data),
        12 => check::<m::PoolOp>(version, front, data),
        13 => check::<m::PoolOpReply>(version, front, data),
        14 => check::<m::Statfs>(version, front, data),
        15 => check::<m::StatfsReply>(version, front, data),
        16 => check::<m::Subscribe>(version, front, data),
        17 => check::<m::SubscribeAck>(version, front, data),
        // The two that servers get most.
        18 => check_request(8, front, data),
        _ => check::<m::OsdOpReply>(8, front, data),
    }
});
