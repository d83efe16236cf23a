//! An RPC-over-RDMA client and server, joined in memory by pipes that split the bytes anywhere.

pub(crate) mod raw;

use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::rpc::rdma::{Answer, Config, Error, Requester, Responder};
use onego_nfs::rpc::{Record, Split, Splitter};
use onego_rdma::iwarp::{self, Connection, Entropy, Event};
use onego_testkit::{Delivery, Pipe};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::sync::Arc;

pub(crate) const NOW: Time = Time::from_nanos(1_000_000_000);

/// Payload length of messages without a payload.
pub(crate) const NONE: u32 = u32::MAX;

/// Builds a message of these tests: xid, length of the front, length of the payload, two words for the server, and
/// pseudo-random words up to the front's length.
pub(crate) fn front(xid: u32, len: usize, payload: u32, words: [u32; 2]) -> Vec<u8> {
    assert!(len >= 20 && len.is_multiple_of(4));
    let mut front: Vec<u8> =
        [xid, len as u32, payload, words[0], words[1]].iter().flat_map(|word| word.to_be_bytes()).collect();
    front.extend(noise(len - 20, xid));
    front
}

pub(crate) fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SmallRng::seed_from_u64(seed.into()).fill_bytes(&mut bytes);
    bytes
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(4 * at..4 * at + 4).map(|word| u32::from_be_bytes(word.try_into().unwrap()))
}

/// Locates payloads, and provides buffers for them if `places` is set.
#[derive(Default)]
pub(crate) struct Splits {
    pub(crate) places: bool,
    pub(crate) placed: usize,
}

impl Splitter for Splits {
    fn split(&mut self, start: &[u8]) -> Split {
        let (Some(len), Some(payload)) = (word(start, 1), word(start, 2)) else { return Split::More(12) };
        match payload {
            NONE => Split::Never,
            _ if start.len() < len as usize => Split::More(len as usize),
            payload => Split::At(len as usize, payload as usize),
        }
    }

    fn place(&mut self, _: &[u8], payload: usize) -> Option<SegmentMut> {
        self.placed += usize::from(self.places);
        self.places.then(|| SegmentMut::zeroed(payload))
    }
}

pub(crate) fn payload(record: &Record) -> Vec<u8> {
    match &record.placed {
        Some(placed) => placed.to_vec(),
        None => record.payload.to_vec(),
    }
}

pub(crate) fn entropy(seed: u64) -> Entropy {
    let mut rng = SmallRng::seed_from_u64(seed);
    Box::new(move || rng.next_u64())
}

pub(crate) fn config() -> Config {
    Config::new(Pool::new(8 << 20))
}

/// A pipe to one side that keeps all data.
#[derive(Default)]
pub(crate) struct RecordedPipe {
    pub(crate) pipe: Pipe,
    pub(crate) all: Vec<u8>,
}

impl RecordedPipe {
    pub(crate) fn fill(&mut self, from: &mut Connection, limit: usize) -> bool {
        let mut out = List::new();
        from.transmit(&mut out, limit);
        let bytes = out.to_vec();
        self.all.extend(&bytes);
        self.pipe.extend(&bytes);
        !bytes.is_empty()
    }

    /// Delivers up to `limit` bytes to a connection, as a driver would.
    pub(crate) fn drain(&mut self, to: &mut Connection, limit: usize) -> bool {
        let delivered = self.pipe.deliver(to.landing(), limit, |delivery| match delivery {
            Delivery::Landed(place, n) => to.landed(NOW, place, n),
            Delivery::Received(bytes) => to.received(NOW, bytes),
        });
        delivered.bytes() > 0
    }
}

pub(crate) struct Ends {
    pub(crate) client: Requester<Connection>,
    pub(crate) server: Responder<Connection>,
    pub(crate) to_client: RecordedPipe,
    pub(crate) to_server: RecordedPipe,
    pub(crate) calls: Vec<Record>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) faults: Vec<iwarp::Error>,
    pub(crate) errors: Vec<Error>,
    pub(crate) splits: Splits,
    pub(crate) rng: SmallRng,
}

impl Ends {
    pub(crate) fn new(client: Config, server: Config, seed: u64) -> Self {
        let transport = iwarp::Config { foresee_writes: true, ..iwarp::Config::new(Pool::new(8 << 20)) };
        let transport = Arc::new(transport);
        let told = client.parameters().encode();
        let mut connection = Connection::connect(NOW, transport.clone(), entropy(seed), &told).unwrap();
        connection.opened(NOW);
        let mut this = Self {
            client: Requester::new(connection, client),
            server: Responder::new(Connection::serve(NOW, transport, entropy(seed + 1)), server),
            to_client: RecordedPipe::default(),
            to_server: RecordedPipe::default(),
            calls: Vec::new(),
            answers: Vec::new(),
            faults: Vec::new(),
            errors: Vec::new(),
            splits: Splits::default(),
            rng: SmallRng::seed_from_u64(seed),
        };
        this.settle();
        this
    }

    /// Moves some bytes and collects the results. Returns `false` if nothing moved.
    pub(crate) fn step(&mut self) -> bool {
        let limit = if self.rng.random_bool(0.5) { 1 } else { 1 << 20 };
        let cut = match self.rng.random_range(0..4) {
            0 => 1,
            1 => self.rng.random_range(1..200),
            2 => self.rng.random_range(1..20_000),
            _ => usize::MAX,
        };
        let mut moved = self.to_server.fill(self.client.queue_pair_mut(), limit);
        moved |= self.to_server.drain(self.server.queue_pair_mut(), cut);
        self.collect();
        moved |= self.to_client.fill(self.server.queue_pair_mut(), limit);
        moved |= self.to_client.drain(self.client.queue_pair_mut(), cut);
        self.collect();
        moved
    }

    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    pub(crate) fn collect(&mut self) {
        while let Some(event) = self.client.queue_pair_mut().event() {
            match event {
                Event::Established(how) => self.client.connected(&how.private_data),
                Event::Fault(fault) => self.faults.push(fault),
                _ => {}
            }
        }
        while let Some(event) = self.server.queue_pair_mut().event() {
            match event {
                Event::Requested(told) => {
                    let told = self.server.requested(&told);
                    self.server.queue_pair_mut().accept(&told).unwrap();
                }
                Event::Fault(fault) => self.faults.push(fault),
                _ => {}
            }
        }
        loop {
            match self.server.next(&mut self.splits) {
                Ok(Some(call)) => self.calls.push(call),
                Ok(None) => break,
                Err(error) => return self.errors.push(error),
            }
        }
        loop {
            match self.client.next(&mut Splits::default()) {
                Ok(Some(answer)) => self.answers.push(answer),
                Ok(None) => break,
                Err(error) => return self.errors.push(error),
            }
        }
    }

    /// Answers a call as its two words specify: the length of the front, and that of the payload.
    pub(crate) fn answer(&mut self, call: &Record) {
        let xid = word(&call.front, 0).unwrap();
        let (len, payload) = (word(&call.front, 3).unwrap(), word(&call.front, 4).unwrap());
        let bytes = if payload == NONE { Vec::new() } else { noise(payload as usize, xid ^ 5) };
        self.server.reply(&front(xid, len as usize, payload, [0; 2]), List::from(bytes));
    }
}
