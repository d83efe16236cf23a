//! Every protocol violation is answered by its Terminate message, and touches no memory.

use crate::support::raw::{
    LAST, READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, TERMINATE, WRITE, fpdu, fpdu_of, mpa_request,
    read_fields, read_request, send, tagged, untagged,
};
use crate::support::{End, config, filled};
use onego_rdma::iwarp::{Blame, Code, Config, Error, Event, Violation};
use onego_rdma::{CompletedWork, Key, Memory, QueuePair, Remote, SendFlags, Status};

const BASE: u64 = 1000;
const IRD: u16 = 2;

/// A server with a sink of 100 bytes, a source of 100 bytes, two receives of 50 bytes, and an RDMA Read of 100 bytes in
/// flight.
struct Victim {
    end: End,
    sink: Key,
    source: Key,
    reading: u32,
}

impl Victim {
    fn new(crc: bool) -> Self {
        let mut end = End::server(Config { ird: IRD, fpdu: 80, ..config() });
        end.incoming.extend(mpa_request(crc));
        while end.feed(usize::MAX) > 0 {}
        end.connection.accept(b"").unwrap();
        let sink = end.connection.register_at(Memory::Sink(filled(100, 0xaa)), BASE).unwrap();
        let source = Memory::Source(vec![0xbb; 100].into());
        let source = end.connection.register_at(source, BASE).unwrap();
        for id in 0..3 {
            end.connection.post_receive(id, filled(50, 0xcc)).unwrap();
        }
        end.output(usize::MAX);
        end.incoming.extend(fpdu(&send(1, 0, b""), crc));
        while end.feed(usize::MAX) > 0 {}
        end.completions.clear();
        end.connection.post_read(9, filled(100, 0xdd), Remote { key: Key(1), offset: 0 }).unwrap();
        let request = end.output(usize::MAX).to_vec();
        let reading = u32::from_be_bytes(request[20..24].try_into().unwrap());
        end.events.clear();
        Self { end, sink, source, reading }
    }

    /// Receives bytes, and returns the Terminate message of the reply.
    fn suffer(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.end.incoming.extend(bytes);
        while self.end.feed(usize::MAX) > 0 {}
        self.end.output(usize::MAX).to_vec()
    }

    fn check_memory(&self) {
        let mut came = [0; 4];
        for completion in &self.end.completions {
            let (kind, bytes, byte) = match &completion.done {
                CompletedWork::Received { buffer, .. } => (0, buffer.to_vec(), 0xcc),
                CompletedWork::Read(sink) => (1, sink.to_vec(), 0xdd),
                CompletedWork::Released(_, Memory::Sink(sink)) => (2, sink.to_vec(), 0xaa),
                CompletedWork::Released(_, Memory::Source(source)) => (3, source.to_vec(), 0xbb),
                other => panic!("{other:?} was never posted"),
            };
            assert_eq!(completion.status, Status::Flushed);
            assert!(bytes.iter().all(|at| *at == byte), "memory was touched: {bytes:x?}");
            came[kind] += 1;
        }
        assert_eq!(came, [2, 1, 1, 1]);
    }
}

/// Segments, with the violation of the last.
fn cases(victim: &Victim) -> Vec<(Vec<Vec<u8>>, Violation, [u8; 2])> {
    let (sink, source, reading) = (victim.sink.0, victim.source.0, victim.reading);
    let one = |segment: Vec<u8>, violation, code| (vec![segment], violation, code);
    let far = u64::MAX - 4;
    let bounds = |offset| Violation::WriteBounds { key: sink, offset };
    let read_bounds = |offset, len| Violation::ReadBounds { key: source, offset, len };
    let mut cases = vec![
        // DDP, tagged (RFC 5041, section 7.1).
        one(tagged(WRITE, sink ^ 1, BASE, b"x"), Violation::WriteKey(sink ^ 1), [0x11, 0]),
        one(tagged(WRITE, sink ^ 0x100, BASE, b"x"), Violation::WriteKey(sink ^ 0x100), [0x11, 0]),
        one(tagged(WRITE, 0, BASE, b"x"), Violation::WriteKey(0), [0x11, 0]),
        one(tagged(WRITE, sink, BASE + 100, b"x"), bounds(BASE + 100), [0x11, 1]),
        one(tagged(WRITE, sink, BASE + 99, b"xy"), bounds(BASE + 99), [0x11, 1]),
        one(tagged(WRITE, sink, BASE - 1, b"xy"), bounds(BASE - 1), [0x11, 1]),
        one(tagged(WRITE, sink, far, b"123456"), Violation::WriteWraps(far), [0x11, 3]),
        one(tagged(WRITE & !0x300 | 0x200, sink, BASE, b"x"), Violation::TaggedVersion, [0x11, 4]),
        // DDP, untagged (RFC 5041, section 7.2).
        one(untagged(SEND, 0, [1, 2, 0], b"x"), Violation::Queue(1), [0x12, 1]),
        one(untagged(SEND, 0, [9, 2, 0], b"x"), Violation::Queue(9), [0x12, 1]),
        one(send(3, 0, b"x"), Violation::Msn { found: 3, expected: 2 }, [0x12, 3]),
        one(send(1, 0, b"x"), Violation::Msn { found: 1, expected: 2 }, [0x12, 3]),
        one(send(2, 1, b"x"), Violation::MessageOffset { found: 1, expected: 0 }, [0x12, 4]),
        one(send(2, 0, &[1; 51]), Violation::MessageTooLong { len: 51, room: 50 }, [0x12, 5]),
        one(untagged(SEND & !0x300, 0, [0, 2, 0], b"x"), Violation::UntaggedVersion, [0x12, 6]),
        // RDMAP, protection (RFC 5040, section 7).
        one(tagged(WRITE, source, BASE, b"x"), Violation::WriteAccess(source), [0x01, 2]),
        one(tagged(WRITE, reading, 0, b"x"), Violation::WriteAccess(reading), [0x01, 2]),
        one(read_request(1, source ^ 1, BASE, 1), Violation::ReadKey(source ^ 1), [0x01, 0]),
        one(read_request(1, source, BASE, 101), read_bounds(BASE, 101), [0x01, 1]),
        one(read_request(1, source, BASE + 100, 1), read_bounds(BASE + 100, 1), [0x01, 1]),
        one(read_request(1, source, BASE, u32::MAX), read_bounds(BASE, u32::MAX), [0x01, 1]),
        one(read_request(1, sink, BASE, 1), Violation::ReadAccess(sink), [0x01, 2]),
        one(read_request(1, reading, 0, 1), Violation::ReadAccess(reading), [0x01, 2]),
        one(read_request(1, source, far, 6), Violation::ReadWraps(far), [0x01, 4]),
        // RDMAP, operations.
        one(untagged(SEND & !0xc0, 0, [0, 2, 0], b"x"), Violation::RdmapVersion, [0x02, 5]),
        one(untagged(0x4148, 0, [0, 2, 0], b"x"), Violation::Opcode(8), [0x02, 6]),
        one(untagged(0x414f, 0, [0, 2, 0], b"x"), Violation::Opcode(15), [0x02, 6]),
        one(untagged(0x4140, 0, [0, 2, 0], b"x"), Violation::Opcode(0), [0x02, 6]),
        one(tagged(0xc143, sink, BASE, b"x"), Violation::Opcode(3), [0x02, 6]),
        one(
            untagged(READ_REQUEST, 0, [0, 1, 0], &read_fields(source, BASE, 1)),
            Violation::Queue(0),
            [0x12, 1],
        ),
        one(read_request(2, source, BASE, 1), Violation::Msn { found: 2, expected: 1 }, [0x12, 3]),
        one(
            untagged(READ_REQUEST, 0, [1, 1, 0], &[&read_fields(source, BASE, 1)[..], b"more"].concat()),
            Violation::Length(50),
            [0x02, 0xff],
        ),
        one(
            untagged(READ_REQUEST & !LAST, 0, [1, 1, 0], &read_fields(source, BASE, 1)),
            Violation::Length(46),
            [0x02, 0xff],
        ),
        // Responses to the read in flight.
        one(
            tagged(READ_RESPONSE, reading ^ 1, 0, &[1; 100]),
            Violation::ResponseKey { found: reading ^ 1, expected: reading },
            [0x11, 0],
        ),
        one(tagged(READ_RESPONSE, reading, 1, &[1; 99]), Violation::ResponseBounds(0), [0x11, 1]),
        one(tagged(READ_RESPONSE, reading, 1, &[1; 100]), Violation::ResponseBounds(0), [0x11, 1]),
        one(tagged(READ_RESPONSE, reading, 0, &[1; 101]), Violation::ResponseBounds(0), [0x11, 1]),
        one(tagged(READ_RESPONSE, reading, 0, &[1; 99]), Violation::ResponseBounds(0), [0x11, 1]),
        one(tagged(READ_RESPONSE & !LAST, reading, 0, &[1; 100]), Violation::ResponseBounds(0), [0x11, 1]),
    ];
    // Beyond the negotiated number of reads.
    let reads = (1..=u32::from(IRD) + 1).map(|msn| read_request(msn, source, BASE, 100)).collect();
    cases.push((reads, Violation::TooManyReads(IRD), [0x12, 2]));
    // No receive is left: the first of the three was consumed at the start.
    let sends = (2..5).map(|msn| send(msn, 0, b"")).collect();
    cases.push((sends, Violation::NoReceive, [0x12, 2]));
    // A message that becomes too long with its second segment. The first is placed, with the bytes that were there
    // before.
    let parts = vec![untagged(SEND & !LAST, 0, [0, 2, 0], &[0xcc; 30]), send(2, 30, &[0xcc; 21])];
    cases.push((parts, Violation::MessageTooLong { len: 51, room: 50 }, [0x12, 5]));
    // A key that cannot be invalidated.
    for key in [sink ^ 1, reading] {
        let segment = untagged(SEND_INVALIDATE, key, [0, 2, 0], b"");
        cases.push((vec![segment], Violation::CannotInvalidate(key), [0x01, 9]));
    }
    // A message in two parts of different kinds.
    let parts =
        vec![untagged(SEND & !LAST, 0, [0, 2, 0], b""), untagged(SEND_INVALIDATE, sink, [0, 2, 0], b"")];
    cases.push((parts, Violation::Mixed { began: 3, found: 4 }, [0x02, 7]));
    cases
}

#[test]
fn a_segment_that_breaks_a_rule_is_answered_and_touches_nothing() {
    for crc in [false, true] {
        for case in 0..cases(&Victim::new(crc)).len() {
            let mut victim = Victim::new(crc);
            let (segments, violation, code) = cases(&victim).swap_remove(case);
            let bytes: Vec<u8> = segments.iter().flat_map(|segment| fpdu(segment, crc)).collect();
            let said = victim.suffer(&bytes);
            assert_eq!(victim.end.fault(), Some(Error::Violation(violation)), "case {case}");
            assert_eq!(Error::Violation(violation).blame(), Blame::Peer);
            check_terminate(&said, code, segments.last().unwrap(), crc);
            if violation != Violation::NoReceive {
                victim.check_memory();
            }
        }
    }
}

/// The Terminate message states its subject, with the headers of the segment.
fn check_terminate(said: &[u8], code: [u8; 2], segment: &[u8], crc: bool) {
    let len = usize::from(u16::from_be_bytes([said[0], said[1]]));
    assert_eq!(said[2..20], untagged(TERMINATE, 0, [2, 1, 0], b""));
    assert_eq!(said[20..22], code);
    let header = match segment[1] & 0xf {
        _ if said[22] == 0 => 0,
        1 => 46,
        _ if segment[0] & 0x80 != 0 => 14,
        _ => 18,
    };
    let follows = match header {
        0 => 0,
        46 => 0xe0,
        _ => 0xc0,
    };
    assert_eq!(said[22..24], [follows, 0]);
    if header > 0 {
        let about = [&(segment.len() as u16).to_be_bytes()[..], &segment[..header]].concat();
        assert_eq!(said[24..24 + header + 2], about);
    }
    assert_eq!(fpdu(&said[2..2 + len], crc), said, "nothing follows, and the checksum is right");
}

#[test]
fn segments_shorter_than_their_headers_are_refused() {
    for (control, shortest) in
        [(WRITE, 14), (READ_RESPONSE, 14), (SEND, 18), (READ_REQUEST, 46), (TERMINATE, 22)]
    {
        for len in 0..shortest {
            let mut victim = Victim::new(false);
            let said = victim.suffer(&fpdu_of(len, &control.to_be_bytes(), false));
            assert_eq!(victim.end.fault(), Some(Error::Violation(Violation::Length(len))));
            assert_eq!(said[20..24], [0x02, 0xff, 0, 0]);
            victim.check_memory();
        }
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    let segment = |victim: &Victim| fpdu(&tagged(WRITE, victim.sink.0, BASE + 10, b"payload"), true);
    let len = segment(&Victim::new(true)).len();
    for bit in 0..len * 8 {
        let mut victim = Victim::new(true);
        let mut bytes = segment(&victim);
        bytes[bit / 8] ^= 1 << (bit % 8);
        // Enough bytes for a length that became too long.
        bytes.resize(bytes.len() + (1 << 16), 0);
        let said = victim.suffer(&bytes);
        let fault = victim.end.fault().expect("damage is found");
        let code = match fault {
            Error::Corrupt => [0x20, 2],
            Error::Violation(violation) => {
                let Code { layer, kind, code } = violation.code();
                [layer << 4 | kind, code]
            }
            other => panic!("{other:?} for bit {bit}"),
        };
        assert_eq!(said[20..22], code);
        assert!(victim.end.completions.iter().all(|done| done.status == Status::Flushed));
        // Whatever the key and the offset became, only the region was written.
        if bit >= 128 {
            assert_eq!(fault, Error::Corrupt);
        }
    }
}

#[test]
fn a_damaged_message_does_not_complete() {
    let mut victim = Victim::new(true);
    let mut bytes = fpdu(&send(2, 0, b"message"), true);
    let at = bytes.len() - 6;
    bytes[at] ^= 1;
    victim.suffer(&bytes);
    assert_eq!(victim.end.fault(), Some(Error::Corrupt));
    assert_eq!(Error::Corrupt.blame(), Blame::Transport);
    assert!(victim.end.completions.iter().all(|done| done.status == Status::Flushed));
}

#[test]
fn the_peers_terminate_is_reported_in_either_layout() {
    for (first, follows) in [(0x12, 0xc0), (0x21, 0x03)] {
        let mut victim = Victim::new(false);
        let about = [&[first, 2, follows, 0][..], &[0; 20]].concat();
        let said = victim.suffer(&fpdu(&untagged(TERMINATE, 0, [2, 1, 0], &about), false));
        let code = Code { layer: 1, kind: 2, code: 2 };
        assert_eq!(victim.end.fault(), Some(Error::Terminated(code)));
        assert!(said.is_empty(), "a Terminate message is not answered");
        victim.check_memory();
    }
    let mut victim = Victim::new(false);
    victim.suffer(&fpdu(&untagged(TERMINATE, 0, [2, 1, 0], &[0; 4 + 49]), false));
    assert_eq!(victim.end.fault(), Some(Error::Violation(Violation::Length(18 + 4 + 49))));
}

#[test]
fn memory_that_is_taken_back_is_written_no_more() {
    // Before its payload arrives.
    let mut victim = Victim::new(false);
    let bytes = fpdu(&tagged(WRITE, victim.sink.0, BASE, &[1; 100]), false);
    victim.suffer(&bytes[..16 + 10]);
    let Ok(Some(Memory::Sink(sink))) = victim.end.connection.invalidate(victim.sink) else {
        panic!("the memory is not there")
    };
    assert_eq!(sink[..11], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0xaa]);
    let said = victim.suffer(&bytes[16 + 10..]);
    assert_eq!(victim.end.fault(), Some(Error::Violation(Violation::Revoked(victim.sink.0))));
    assert_eq!(said[20..22], [0x11, 0]);
}

#[test]
fn memory_that_is_out_for_a_receive_comes_back_when_it_has_landed() {
    let mut victim = Victim::new(false);
    let key = victim.end.connection.register_at(Memory::Sink(filled(10_000, 0xaa)), 0).unwrap();
    let bytes = fpdu(&tagged(WRITE, key.0, 0, &[1; 10_000]), false);
    victim.suffer(&bytes[..16]);
    let mut place = victim.end.connection.landing().place.expect("a long payload is received in place");
    assert_eq!(place.len(), 10_000);
    assert!(matches!(victim.end.connection.invalidate(key), Ok(None)));
    place[..5000].fill(2);
    victim.end.connection.landed(crate::support::NOW, place, 5000);
    victim.end.collect();
    assert_eq!(victim.end.fault(), Some(Error::Violation(Violation::Revoked(key.0))));
    let CompletedWork::Released(of, Memory::Sink(sink)) = &victim.end.completions[0].done else { panic!() };
    assert_eq!((*of, sink.len(), sink[4999], sink[5000]), (key, 10_000, 2, 0xaa));
}

#[test]
fn everything_comes_back_after_a_place_that_is_out() {
    let mut victim = Victim::new(false);
    let key = victim.end.connection.register_at(Memory::Sink(filled(10_000, 0xaa)), 0).unwrap();
    victim.suffer(&fpdu(&tagged(WRITE, key.0, 0, &[1; 10_000]), false)[..16]);
    let place = victim.end.connection.landing().place.unwrap();
    victim.end.connection.closed();
    victim.end.collect();
    assert!(victim.end.completions.is_empty());
    victim.end.connection.landed(crate::support::NOW, place, 0);
    victim.end.collect();
    let lens = victim.end.completions.iter().filter_map(|done| match &done.done {
        CompletedWork::Released(_, memory) => Some(memory.len()),
        _ => None,
    });
    assert_eq!(lens.sum::<usize>(), 10_200);
    assert_eq!(victim.end.fault(), None);
}

#[test]
fn the_handshake_is_checked() {
    let request = |flags: u8, revision: u8, private: &[u8]| {
        [&b"MPA ID Req Frame"[..], &[flags, revision], &(private.len() as u16).to_be_bytes(), private]
            .concat()
    };
    let none = Error::Revision { ours: 2, theirs: 0 };
    let many = Error::Revision { ours: 2, theirs: 3 };
    for (bytes, error, rejected) in [
        (b"GET / HTTP/1.1\r\nHost: x\r\n".to_vec(), Error::NotMpa, None),
        (request(0x80, 1, b""), Error::Markers, Some([0x20, 1])),
        (request(0x10, 2, b"abc"), Error::NoDepths(3), Some([0x20, 2])),
        (request(0, 0, b""), none, Some([0x20, 2])),
        (request(0, 3, b""), many, Some([0x20, 2])),
        (request(0, 1, &[0; 513]), Error::PrivateDataTooLong(513), None),
        // Peer-to-peer mode without a ready-to-receive indication.
        (request(0x10, 2, &[0x80, 1, 0, 1]), Error::NoReadyToReceive, Some([0x30, 2])),
        ([request(0, 1, b""), vec![0]].concat(), Error::Impatient, None),
    ] {
        let mut end = End::server(config());
        end.incoming.extend(&bytes);
        while end.feed(usize::MAX) > 0 {}
        assert_eq!(end.fault(), Some(error));
        let said = end.output(usize::MAX).to_vec();
        assert_eq!(said.get(16..18), rejected.as_ref().map(|flags| &flags[..]), "{error:?}");
    }
}

#[test]
fn a_server_with_an_invalid_reply_is_dropped() {
    let reply = |flags: u8, revision: u8, private: &[u8]| {
        [&b"MPA ID Rep Frame"[..], &[flags, revision], &(private.len() as u16).to_be_bytes(), private]
            .concat()
    };
    let few = Error::InsufficientIrd { ours: 128, theirs: 129 };
    let old = Error::Revision { ours: 2, theirs: 1 };
    for (bytes, error, code) in [
        (reply(0x10, 2, &[0, 128, 0, 129]), few, Some([0x20, 6])),
        (reply(0x90, 2, &[0, 1, 0, 1]), Error::Markers, None),
        (reply(0x20, 1, b""), old, None),
        (reply(0, 2, b""), Error::NoDepths(0), None),
        (reply(0x10, 2, b"x"), Error::NoDepths(1), None),
    ] {
        let mut end = End::client(config(), b"");
        end.output(usize::MAX);
        end.incoming.extend(&bytes);
        while end.feed(usize::MAX) > 0 {}
        assert_eq!(end.fault(), Some(error));
        let said = end.output(usize::MAX).to_vec();
        assert_eq!(said.get(20..22), code.as_ref().map(|code| &code[..]));
    }
}

#[test]
fn a_handshake_that_takes_too_long_fails() {
    let mut end = End::client(config(), b"");
    let deadline = end.connection.deadline().unwrap();
    end.connection.timeout(crate::support::NOW);
    assert!(end.connection.event().is_none());
    end.connection.timeout(deadline);
    let timeout = config().handshake_timeout;
    assert_eq!(end.connection.event(), Some(Event::Fault(Error::HandshakeTimeout(timeout))));
    assert_eq!(end.connection.deadline(), None);
}

#[test]
fn an_ended_connection_sends_nothing() {
    let mut victim = Victim::new(false);
    victim.end.connection.post_send(1, b"x".to_vec().into(), SendFlags::default()).unwrap();
    victim.end.connection.disconnect();
    victim.end.collect();
    let all = victim.end.completions.len();
    assert_eq!(all, 6);
    assert!(victim.end.output(usize::MAX).is_empty());
    assert!(victim.end.connection.landing().place.is_none() && victim.end.connection.landing().ahead == 0);
}
