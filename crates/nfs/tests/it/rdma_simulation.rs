//! Random calls and replies by seed, in any order, on a connection that may break at any moment: every call is either
//! answered correctly or returned, exactly once, with its memory.
//!
//! [`onego_testkit::seeds`] documents how to run more seeds, or a single one again.

use crate::ends::{Ends, NONE, config, front, noise, payload, word};
use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::rpc::rdma::Config;
use onego_rdma::Memory;
use onego_testkit::seeds::Seeds;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

struct Made {
    call: Vec<u8>,
    payload: u32,
    reply: (u32, u32),
    sink: Option<usize>,
    is_fresh: bool,
}

fn any_config(rng: &mut SmallRng) -> Config {
    Config {
        inline: [1024, 2048, 4096, 65536][rng.random_range(0..4)],
        credits: [1, 3, 16, 128][rng.random_range(0..4)],
        remote_invalidation: rng.random_bool(0.7),
        reading_max: [1, 50_000, 16 << 20][rng.random_range(0..3)],
        ..config()
    }
}

fn any_len(rng: &mut SmallRng) -> u32 {
    match rng.random_range(0..4) {
        0 => NONE,
        1 => rng.random_range(0..100),
        2 => rng.random_range(0..5000),
        _ => rng.random_range(0..200_000),
    }
}

fn any_front(rng: &mut SmallRng) -> usize {
    4 * match rng.random_range(0..4) {
        0 => rng.random_range(5..1500),
        _ => rng.random_range(5..60),
    }
}

struct Run {
    ends: Ends,
    rng: SmallRng,
    made: BTreeMap<u32, Made>,
    to_answer: Vec<onego_nfs::rpc::Record>,
    next: u32,
}

impl Run {
    fn call(&mut self) {
        let rng = &mut self.rng;
        let xid = self.next;
        self.next += 1;
        let reply = (any_front(rng) as u32, any_len(rng));
        let len = any_len(rng);
        let call = front(xid, any_front(rng), len, [reply.0, reply.1]);
        // A sink is at least as long as the payload.
        let has_sink = reply.1 != NONE && rng.random_bool(0.7);
        let sink = has_sink.then(|| reply.1 as usize + rng.random_range(0..2) * rng.random_range(0..5000));
        let beside = if sink.is_some() || reply.1 == NONE { 0 } else { reply.1 as usize + 3 };
        let bytes = if len == NONE { Vec::new() } else { noise(len as usize, xid) };
        let is_fresh = rng.random_bool(0.5);
        let place = sink.map(|len| match is_fresh {
            true => Memory::Fresh(Pool::new(1 << 20), len),
            false => Memory::Sink(SegmentMut::zeroed(len)),
        });
        self.ends.client.call(&call, List::from(bytes), place, reply.0 as usize + beside);
        self.made.insert(xid, Made { call, payload: len, reply, sink, is_fresh });
    }

    fn check_calls(&mut self) {
        for record in self.ends.calls.drain(..) {
            let xid = word(&record.front, 0).unwrap();
            let made = &self.made[&xid];
            assert_eq!(&*record.front, made.call);
            let expected = if made.payload == NONE { Vec::new() } else { noise(made.payload as usize, xid) };
            assert_eq!(payload(&record), expected);
            self.to_answer.push(record);
        }
    }

    fn check_answers(&mut self) {
        for answer in self.ends.answers.drain(..) {
            let xid = answer.xid;
            let made = self.made.remove(&xid).expect("a call is answered once");
            let record = answer.reply.expect("the server can take everything");
            assert_eq!(&*record.front, front(xid, made.reply.0 as usize, made.reply.1, [0; 2]));
            let expected =
                if made.reply.1 == NONE { Vec::new() } else { noise(made.reply.1 as usize, xid ^ 5) };
            assert_eq!(payload(&record), expected);
            // An inline payload needs no fresh memory.
            if let Some(len) = made.sink
                && !(made.is_fresh && record.placed.is_none())
            {
                let mut placed = record.placed.expect("there was a sink");
                placed.try_join(answer.rest.expect("its rest comes back")).expect("that is its rest");
                assert_eq!(placed.len(), len);
            }
        }
    }

    fn step(&mut self) -> bool {
        let moved = self.ends.step();
        self.check_calls();
        self.check_answers();
        moved
    }

    fn answer_one(&mut self) {
        if !self.to_answer.is_empty() {
            let record = self.to_answer.swap_remove(self.rng.random_range(0..self.to_answer.len()));
            self.ends.answer(&record);
        }
    }
}

/// Returns the number of calls that were answered, and of those returned because the connection ended.
fn run(seed: u64) -> (usize, usize) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let ends = Ends::new(any_config(&mut rng), any_config(&mut rng), seed);
    let mut run = Run { ends, rng, made: BTreeMap::new(), to_answer: Vec::new(), next: 1 };
    run.ends.splits.places = seed.is_multiple_of(2);
    let mut back = 0;
    let steps = run.rng.random_range(50..600);
    for _ in 0..steps {
        match run.rng.random_range(0..10) {
            0 if run.next < 60 => run.call(),
            1 => run.answer_one(),
            _ => drop(run.step()),
        }
    }
    if seed.is_multiple_of(3) {
        run.ends.client.queue_pair_mut().closed();
        run.ends.collect();
        run.check_answers();
        for call in run.ends.client.unanswered() {
            back += 1;
            let made = run.made.remove(&call.xid).expect("a call comes back once");
            // Memory that was never allocated from its pool is not returned.
            let sink = call.sink.map(|sink| sink.len());
            assert!(sink == made.sink || (made.is_fresh && sink.is_none()));
        }
        run.ends.server.queue_pair_mut().closed();
        while run.ends.server.next(&mut run.ends.splits).unwrap().is_some() {}
    } else {
        while run.step() || !run.to_answer.is_empty() {
            run.answer_one();
        }
        assert_eq!((run.ends.client.under_way(), run.ends.server.under_way()), (0, 0));
        assert_eq!((&run.ends.faults[..], &run.ends.errors[..]), (&[][..], &[][..]));
    }
    assert!(run.made.is_empty(), "lost calls: {:?}", run.made.keys());
    (run.next as usize - 1 - back, back)
}

#[test]
fn every_call_is_answered_or_returned() {
    let seeds = Seeds { short: 300, long: 10_000 };
    let Some(seen) = seeds.each("-p onego-nfs --test it rdma_simulation::", run) else { return };
    let (answered, back) = seen.iter().fold((0, 0), |(a, b), (answered, back)| (a + answered, b + back));
    assert!(answered > 1000 && back > 100, "{answered} answered, {back} returned");
}
