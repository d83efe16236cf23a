//! The RPC-over-RDMA client against the server, with messages of every shape.

use crate::ends::{Ends, NONE, Splits, config, front, noise, payload, word};
use onego_buf::{List, Segment, SegmentMut};
use onego_nfs::rpc::Splitter;
use onego_nfs::rpc::rdma::{Config, RdmaError};
use onego_rdma::Memory;

/// Counts RDMA Writes, Read requests, sends, and sends with invalidation. FPDUs must not be split.
fn opcodes(bytes: &[u8]) -> [usize; 4] {
    let mut counts = [0; 4];
    let mut at = 0;
    while at < bytes.len() {
        let len = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let last = bytes[at + 2] & 0x40 != 0;
        match bytes[at + 3] & 0xf {
            0 if last => counts[0] += 1,
            1 => counts[1] += 1,
            3 if last => counts[2] += 1,
            4 if last => counts[3] += 1,
            _ => {}
        }
        at += (2 + len).next_multiple_of(4) + 4;
    }
    counts
}

/// Makes and answers one call; `call` and `reply` are the lengths of front and payload.
fn exchange(ends: &mut Ends, xid: u32, call: (usize, u32), reply: (usize, u32), sink: Option<usize>) {
    let words = [reply.0 as u32, reply.1];
    let call_front = front(xid, call.0, call.1, words);
    let bytes = if call.1 == NONE { Vec::new() } else { noise(call.1 as usize, xid) };
    // In two segments.
    let mut list = List::from(bytes[..bytes.len() / 3].to_vec());
    list.push(Segment::copy_from(&bytes[bytes.len() / 3..]));
    let beside = if sink.is_some() || reply.1 == NONE { 0 } else { reply.1 as usize + 3 };
    ends.client.call(
        &call_front,
        list,
        sink.map(|len| Memory::Sink(SegmentMut::zeroed(len))),
        reply.0 + beside,
    );
    ends.settle();
    assert_eq!((&ends.faults[..], &ends.errors[..]), (&[][..], &[][..]));
    let record = ends.calls.pop().expect("the call comes");
    assert_eq!(&*record.front, &call_front);
    assert_eq!(payload(&record), bytes);
    ends.answer(&record);
    ends.settle();
    assert_eq!((&ends.faults[..], &ends.errors[..]), (&[][..], &[][..]));
    let answer = ends.answers.pop().expect("the answer comes");
    assert_eq!(answer.xid, xid);
    let record = answer.reply.expect("the call was taken");
    assert_eq!(&*record.front, front(xid, reply.0, reply.1, [0; 2]));
    let expected = if reply.1 == NONE { Vec::new() } else { noise(reply.1 as usize, xid ^ 5) };
    match sink {
        Some(len) => {
            let mut placed = record.placed.expect("the payload is in the sink");
            assert_eq!(&*placed, expected);
            placed.try_join(answer.rest.expect("the rest comes back")).expect("it is the rest");
            assert_eq!(placed.len(), len);
        }
        None => assert_eq!(payload(&record), expected),
    }
    assert_eq!((ends.client.under_way(), ends.server.under_way()), (0, 0));
    assert_eq!((ends.client.unsent(), ends.server.unsent()), (0, 0));
}

#[test]
fn messages_of_every_shape_arrive() {
    for (seed, inline) in [(1, 1024), (2, 4096), (3, 64 << 10)] {
        for places in [false, true] {
            let config = Config { inline, ..config() };
            let mut ends = Ends::new(config.clone(), config, seed);
            ends.splits.places = places;
            let mut xid = 0;
            for front in [20, 900, 1000, 4052, 5000, 50_000] {
                for len in [NONE, 0, 1, 4, 3000, 4096, 70_001, 1 << 20] {
                    xid += 1;
                    exchange(&mut ends, xid, (front, len), (64, NONE), None);
                    exchange(&mut ends, xid, (64, NONE), (front, len), None);
                    if len != NONE {
                        exchange(&mut ends, xid, (64, NONE), (front, len), Some(len as usize));
                        exchange(&mut ends, xid, (64, NONE), (front, len / 2), Some(len as usize));
                    }
                }
            }
        }
    }
}

#[test]
fn small_messages_are_sent_inline_and_large_ones_read_and_written() {
    let traffic = |inline, invalidation, call, reply, sink| {
        let config = Config { inline, remote_invalidation: invalidation, ..config() };
        let mut ends = Ends::new(config.clone(), config, 4);
        exchange(&mut ends, 1, (40, NONE), (40, NONE), None);
        ends.to_client.all.clear();
        ends.to_server.all.clear();
        exchange(&mut ends, 2, call, reply, sink);
        (opcodes(&ends.to_server.all), opcodes(&ends.to_client.all))
    };
    let sent = ([0, 0, 1, 0], [0, 0, 1, 0]);
    // The header takes 28 bytes.
    assert_eq!(traffic(1024, true, (96, 900), (64, NONE), None), sent);
    assert_eq!(traffic(1024, true, (96, 901), (64, NONE), None), ([0, 0, 1, 0], [0, 1, 0, 1]));
    assert_eq!(traffic(1024, false, (96, 901), (64, NONE), None), ([0, 0, 1, 0], [0, 1, 1, 0]));
    assert_eq!(traffic(4096, true, (96, 3000), (64, NONE), None), sent);
    assert_eq!(traffic(1024, true, (1000, NONE), (64, NONE), None), ([0, 0, 1, 0], [0, 1, 0, 1]));
    assert_eq!(traffic(4096, true, (96, NONE), (128, 3900), Some(3900)), sent);
    assert_eq!(traffic(4096, true, (96, NONE), (128, 4096), Some(4096)), ([0, 0, 1, 0], [1, 0, 0, 1]));
    assert_eq!(traffic(4096, false, (96, NONE), (128, 4096), Some(4096)), ([0, 0, 1, 0], [1, 0, 1, 0]));
    assert_eq!(traffic(4096, true, (96, NONE), (5000, NONE), None), ([0, 0, 1, 0], [1, 0, 0, 1]));
    // Two regions: remote invalidation of only one is not allowed.
    assert_eq!(traffic(1024, true, (96, 4096), (2000, NONE), None), ([0, 0, 1, 0], [1, 1, 1, 0]));
}

#[test]
fn sides_with_different_sizes_agree_on_the_smaller() {
    for (ours, theirs) in [(1024, 65536), (65536, 1024), (4096, 8192)] {
        let mut ends =
            Ends::new(Config { inline: ours, ..config() }, Config { inline: theirs, ..config() }, 5);
        for (xid, len) in [900, 1100, 3000, 4500, 9000, 70_000].into_iter().enumerate() {
            exchange(&mut ends, xid as u32, (40, len), (40, len), Some(len as usize));
        }
    }
}

#[test]
fn a_reply_that_does_not_fit_fails_only_its_call() {
    let mut ends = Ends::new(config(), config(), 6);
    // The client expects less than it gets: no reply chunk, a short one, and a payload of another size.
    for (xid, sink, reply_max, words) in
        [(1, None, 64, [5000, NONE]), (2, None, 6000, [8000, NONE]), (3, Some(5000), 64, [64, 5001])]
    {
        let call = front(xid, 40, NONE, words);
        ends.client.call(
            &call,
            List::new(),
            sink.map(|len| Memory::Sink(SegmentMut::zeroed(len))),
            reply_max,
        );
        ends.settle();
        let record = ends.calls.pop().unwrap();
        ends.answer(&record);
        ends.settle();
        let answer = ends.answers.pop().unwrap();
        assert_eq!((answer.xid, answer.reply.unwrap_err()), (xid, RdmaError::Chunk));
        assert_eq!(answer.rest.map(|sink| sink.len()), sink);
    }
    exchange(&mut ends, 9, (40, 9000), (40, 9000), Some(9000));
}

#[test]
fn calls_in_flight_never_exceed_the_grant() {
    for (ours, theirs, agreed) in [(128, 8, 8), (4, 128, 4), (1, 1, 1), (128, 128, 128)] {
        let mut ends =
            Ends::new(Config { credits: ours, ..config() }, Config { credits: theirs, ..config() }, 7);
        let call = |ends: &mut Ends, xid| {
            ends.client.call(&front(xid, 40, 9000, [40, NONE]), List::from(noise(9000, xid)), None, 64);
        };
        // One call before the first reply.
        (0..300).for_each(|xid| call(&mut ends, xid));
        ends.settle();
        assert_eq!(ends.calls.len(), 1);
        let mut seen = 0;
        let mut most = 0;
        while ends.client.under_way() > 0 {
            most = most.max(ends.calls.len());
            seen += ends.calls.len();
            for record in std::mem::take(&mut ends.calls) {
                ends.answer(&record);
            }
            ends.settle();
        }
        assert_eq!((seen, most, ends.answers.len()), (300, agreed, 300), "{ours} {theirs}");
        assert!(ends.client.has_room());
    }
}

#[test]
fn a_server_limits_its_concurrent_reads() {
    let server = Config { reading_max: 100_000, ..config() };
    let mut ends = Ends::new(config(), server, 8);
    exchange(&mut ends, 0, (40, NONE), (40, NONE), None);
    ends.splits.places = true;
    for xid in 1..=20 {
        ends.client.call(&front(xid, 40, 60_000, [40, NONE]), List::from(noise(60_000, xid)), None, 64);
    }
    // Everything that can be sent before reads are answered.
    while ends.to_server.fill(ends.client.queue_pair_mut(), 1 << 20) {}
    while ends.to_server.drain(ends.server.queue_pair_mut(), usize::MAX) {}
    ends.collect();
    assert_eq!((ends.splits.placed, ends.server.under_way()), (1, 20), "the others wait, without memory");
    ends.settle();
    assert_eq!((ends.splits.placed, ends.calls.len()), (20, 20));
    for record in std::mem::take(&mut ends.calls) {
        assert_eq!(payload(&record), noise(60_000, word(&record.front, 0).unwrap()));
    }
}

#[test]
fn calls_of_a_lost_connection_are_returned_with_their_memory() {
    for steps in 0..60 {
        let mut ends = Ends::new(config(), Config { credits: 4, ..config() }, steps);
        for xid in 0..8 {
            ends.client.call(
                &front(xid, 40, NONE, [40, 30_000]),
                List::new(),
                Some(Memory::Sink(SegmentMut::zeroed(30_000))),
                64,
            );
        }
        for _ in 0..steps {
            ends.step();
            for record in std::mem::take(&mut ends.calls) {
                ends.answer(&record);
            }
        }
        ends.client.queue_pair_mut().closed();
        ends.collect();
        let mut xids: Vec<u32> = ends.answers.iter().map(|answer| answer.xid).collect();
        for call in ends.client.unanswered() {
            assert_eq!(call.sink.map(|sink| sink.len()), Some(30_000), "call {}", call.xid);
            xids.push(call.xid);
        }
        xids.sort_unstable();
        assert_eq!(xids, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn giving_up_a_call_loses_neither_its_sink_nor_the_connection() {
    for (seed, remote_invalidation) in (0..100).map(|seed| (seed, seed % 2 == 0)) {
        let config = Config { remote_invalidation, credits: 3, ..config() };
        let mut ends = Ends::new(config.clone(), config, seed);
        exchange(&mut ends, 0, (40, NONE), (40, NONE), None);
        let call = |ends: &mut Ends, xid| {
            // Long enough to need both a sink and a reply chunk.
            let front = front(xid, 40, NONE, [5000, 30_000]);
            ends.client.call(&front, List::new(), Some(Memory::Sink(SegmentMut::zeroed(30_000))), 5000);
        };
        (1..=4).for_each(|xid| call(&mut ends, xid));
        // The server may have begun to answer, with anything in flight.
        for _ in 0..seed / 2 {
            ends.step();
            for record in std::mem::take(&mut ends.calls) {
                ends.answer(&record);
            }
        }
        let is_under_way = [1, 2, 4].map(|xid| ends.client.is_under_way(xid));
        let mut give_up = |xid, take| ends.client.give_up(xid, take).expect("nothing is out for a receive");
        let sinks = [give_up(1, true), give_up(2, false), give_up(4, true)];
        let lengths = sinks.map(|sink| sink.map(|sink| sink.len()));
        let sink_of = |is_under_way: bool| is_under_way.then_some(30_000);
        assert_eq!(lengths, [sink_of(is_under_way[0]), None, sink_of(is_under_way[2])]);
        let settle = |ends: &mut Ends| loop {
            ends.settle();
            let calls = std::mem::take(&mut ends.calls);
            if calls.is_empty() {
                return;
            }
            calls.iter().for_each(|record| ends.answer(record));
        };
        settle(&mut ends);
        assert_eq!((&ends.faults[..], &ends.errors[..]), (&[][..], &[][..]), "seed {seed}");
        let mut answered: Vec<u32> = ends.answers.drain(..).map(|answer| answer.xid).collect();
        answered.sort_unstable();
        let expected = [(1, !is_under_way[0]), (2, !is_under_way[1]), (3, true), (4, !is_under_way[2])];
        let expected: Vec<u32> =
            expected.into_iter().filter_map(|(xid, comes)| comes.then_some(xid)).collect();
        assert_eq!(answered, expected, "seed {seed}");
        assert_eq!((ends.client.under_way(), ends.server.under_way()), (0, 0));
        exchange(&mut ends, 9, (40, 9000), (5000, 9000), Some(9000));
    }
}

#[test]
fn a_given_up_call_keeps_its_credit_until_it_is_answered() {
    let config = Config { credits: 1, ..config() };
    let mut ends = Ends::new(config.clone(), config, 3);
    ends.client.call(
        &front(1, 40, NONE, [40, 30_000]),
        List::new(),
        Some(Memory::Sink(SegmentMut::zeroed(30_000))),
        64,
    );
    ends.settle();
    assert!(ends.client.give_up(1, true).unwrap().is_some());
    assert!(!ends.client.has_room() && ends.client.is_under_way(1));
    // If the connection ends first, the call is not among the unanswered.
    ends.client.queue_pair_mut().closed();
    ends.collect();
    assert!(ends.client.unanswered().is_empty());
}

#[test]
fn a_forgotten_call_frees_its_credit() {
    let mut ends = Ends::new(config(), Config { credits: 1, ..config() }, 9);
    ends.client.call(&front(1, 40, NONE, [40, NONE]), List::new(), None, 64);
    ends.settle();
    ends.calls.clear();
    assert_eq!(ends.server.under_way(), 1);
    ends.server.forget(1);
    assert_eq!(ends.server.under_way(), 0);
    // A reply to it is ignored now.
    ends.server.reply(&front(1, 40, NONE, [0; 2]), List::new());
    assert_eq!(ends.server.unsent(), 0);
}

#[test]
fn a_splitter_is_called_with_the_payload_length_of_the_front() {
    struct Exact(Splits);
    impl Splitter for Exact {
        fn split(&mut self, start: &[u8]) -> onego_nfs::rpc::Split {
            self.0.split(start)
        }
        fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut> {
            assert_eq!(word(front, 2), Some(payload as u32));
            Some(SegmentMut::zeroed(payload))
        }
    }
    let mut ends = Ends::new(config(), config(), 10);
    ends.client.call(&front(1, 40, 4097, [40, NONE]), List::from(noise(4097, 1)), None, 64);
    let mut exact = Exact(Splits::default());
    loop {
        ends.to_server.fill(ends.client.queue_pair_mut(), 1 << 20);
        ends.to_server.drain(ends.server.queue_pair_mut(), usize::MAX);
        if let Some(record) = ends.server.next(&mut exact).unwrap() {
            assert_eq!(record.placed.as_deref(), Some(&noise(4097, 1)[..]));
            return;
        }
        ends.to_client.fill(ends.server.queue_pair_mut(), 1 << 20);
        ends.to_client.drain(ends.client.queue_pair_mut(), usize::MAX);
        let _ = ends.client.next(&mut Splits::default()).unwrap();
    }
}
