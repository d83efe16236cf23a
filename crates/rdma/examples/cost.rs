//! Cost of iWARP without sockets: two connections in one thread, whose bytes are copied once from one to the other, as
//! a kernel would, compared with the bare copies.
//!
//! `cargo run --release -p onego-rdma --example cost [SECONDS [CASE]]`; under callgrind, `0` seconds for a fixed number
//! of operations.

use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_rdma::iwarp::{Config, Connection, Event};
use onego_rdma::{CompletedWork, Completion, Key, Memory, QueuePair, Remote, SendFlags};
use onego_wire::Time;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: usize = 32;
const FIXED: usize = 300;
const SEND: usize = 512 << 10;
const NOW: Time = Time::from_nanos(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Send,
    Write,
    Read,
}

struct CostEnd {
    connection: Connection,
    incoming: List,
    pool: Pool,
}

impl CostEnd {
    fn new(connection: Connection) -> Self {
        Self { connection, incoming: List::new(), pool: Pool::new(8 << 20) }
    }

    fn receive(&mut self) {
        while !self.incoming.is_empty() {
            let landing = self.connection.landing();
            let ahead = landing.ahead;
            for mut place in landing.into_places() {
                let n = copy(&mut self.incoming, &mut place);
                self.connection.landed(NOW, place, n);
            }
            let n = self.incoming.len().min(ahead);
            if n > 0 {
                let mut block = self.pool.get(n);
                block.truncate(n);
                copy(&mut self.incoming, &mut block);
                self.connection.received(NOW, block.freeze());
            }
        }
    }
}

fn copy(from: &mut List, to: &mut [u8]) -> usize {
    let n = from.copy_to(to);
    from.advance(n);
    n
}

fn pair(crc: bool) -> (CostEnd, CostEnd) {
    let config = Arc::new(Config { crc, ..Config::new(Pool::new(8 << 20)) });
    let entropy = || {
        let mut state = 1_u64;
        Box::new(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 16
        })
    };
    let client =
        Connection::connect(NOW, Arc::clone(&config), entropy(), b"").expect("there is no private data");
    let (mut client, mut server) =
        (CostEnd::new(client), CostEnd::new(Connection::serve(NOW, config, entropy())));
    client.connection.opened(NOW);
    exchange(&mut client, &mut server);
    assert!(matches!(server.connection.event(), Some(Event::Requested(_))));
    server.connection.accept(b"").expect("there is no private data");
    exchange(&mut client, &mut server);
    (client, server)
}

fn exchange(a: &mut CostEnd, b: &mut CostEnd) {
    while a.connection.has_output() || b.connection.has_output() {
        a.connection.transmit(&mut b.incoming, SEND);
        b.receive();
        b.connection.transmit(&mut a.incoming, SEND);
        a.receive();
    }
}

struct Run {
    client: CostEnd,
    server: CostEnd,
    payload: Segment,
    sink: Key,
    source: Key,
    buffers: Vec<SegmentMut>,
}

impl Run {
    fn new(crc: bool, size: usize) -> Self {
        let (client, mut server) = pair(crc);
        let payload = Segment::from(vec![7; size]);
        let sink = server
            .connection
            .register_at(Memory::Sink(SegmentMut::zeroed(size)), 0)
            .expect("the queue has room");
        let source = Memory::Source(payload.clone().into());
        let source = server.connection.register_at(source, 0).expect("the queue has room");
        let buffers = (0..BATCH).map(|_| SegmentMut::zeroed(size)).collect();
        Self { client, server, payload, sink, source, buffers }
    }

    fn batch(&mut self, what: What) {
        for id in 0..BATCH as u64 {
            let Self { client, server, payload, sink, source, buffers } = self;
            let client = &mut client.connection;
            match what {
                What::Send => {
                    let buffer = buffers.pop().expect("there are as many as operations");
                    server.connection.post_receive(id, buffer).expect("the queue has room");
                    client
                        .post_send(id, payload.clone().into(), SendFlags::default())
                        .expect("the queue has room");
                }
                What::Write => {
                    let to = Remote { key: *sink, offset: 0 };
                    client.post_write(id, payload.clone().into(), to).expect("the queue has room");
                }
                What::Read => {
                    let buffer = buffers.pop().expect("there are as many as operations");
                    client
                        .post_read(id, buffer, Remote { key: *source, offset: 0 })
                        .expect("the queue has room");
                }
            }
        }
        exchange(&mut self.client, &mut self.server);
        for end in [&mut self.client, &mut self.server] {
            while let Some(Completion { done, .. }) = end.connection.poll() {
                if let CompletedWork::Received { buffer, .. } | CompletedWork::Read(buffer) = done {
                    self.buffers.push(buffer);
                }
            }
        }
        assert_eq!(self.buffers.len(), BATCH, "everything completed");
    }
}

fn measure(seconds: f64, mut batch: impl FnMut()) -> f64 {
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut batches = 0;
    while if seconds > 0.0 { start.elapsed() < limit } else { batches < FIXED } {
        batch();
        batches += 1;
    }
    start.elapsed().as_nanos() as f64 / (batches * BATCH) as f64
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(1.0, |arg| arg.parse().expect("seconds are a number"));
    let only: Option<usize> = args.next().map(|arg| arg.parse().expect("a case is a number"));
    println!("{:<22} {:>12} {:>12} {:>8} {:>10}", "operation", "ns", "copies, ns", "GB/s", "more, ns");
    let mut case = 0;
    for (what, size) in [
        (What::Send, 128),
        (What::Send, 4 << 10),
        (What::Write, 64 << 10),
        (What::Read, 64 << 10),
        (What::Write, 1 << 20),
    ] {
        for crc in [false, true] {
            case += 1;
            if only.is_some_and(|only| only != case) {
                continue;
            }
            let mut run = Run::new(crc, size);
            let took = measure(seconds, || run.batch(what));
            let (from, mut to) = (run.payload.clone(), vec![0; size]);
            let bare = measure(seconds / 4.0, || {
                for _ in 0..BATCH {
                    to.copy_from_slice(std::hint::black_box(&from));
                    std::hint::black_box(&mut to);
                }
            });
            let name = format!("{case} {what:?} {size}{}", if crc { " crc" } else { "" });
            println!(
                "{name:<22} {took:>12.1} {bare:>12.1} {:>8.2} {:>10.1}",
                size as f64 / took,
                took - bare
            );
        }
    }
}
