//! Two connections, joined in memory by pipes that split the bytes at random.

pub(crate) mod raw;

use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_rdma::iwarp::{Config, Connection, Entropy, Error, Event};
use onego_rdma::{Completion, QueuePair};
use onego_testkit::{Delivery, Pipe};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::sync::Arc;

pub(crate) const NOW: Time = Time::from_nanos(1_000_000_000);

pub(crate) fn config() -> Config {
    Config::new(Pool::new(4 << 20))
}

pub(crate) fn entropy(seed: u64) -> Entropy {
    let mut rng = SmallRng::seed_from_u64(seed);
    Box::new(move || rng.next_u64())
}

pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(crate) events: Vec<Event>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) incoming: Pipe,
    pub(crate) landed: usize,
    pub(crate) shared: usize,
}

impl End {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            events: Vec::new(),
            completions: Vec::new(),
            incoming: Pipe::default(),
            landed: 0,
            shared: 0,
        }
    }

    pub(crate) fn client(config: Config, private_data: &[u8]) -> Self {
        let connection = Connection::connect(NOW, Arc::new(config), entropy(1), private_data);
        let mut this = Self::new(connection.unwrap());
        this.connection.opened(NOW);
        this
    }

    pub(crate) fn server(config: Config) -> Self {
        Self::new(Connection::serve(NOW, Arc::new(config), entropy(2)))
    }

    pub(crate) fn feed(&mut self, limit: usize) -> usize {
        let connection = &mut self.connection;
        let delivered = self.incoming.deliver(connection.landing(), limit, |delivery| match delivery {
            Delivery::Landed(place, n) => connection.landed(NOW, place, n),
            Delivery::Received(bytes) => connection.received(NOW, bytes),
        });
        self.landed += delivered.placed;
        self.shared += delivered.shared;
        self.collect();
        delivered.bytes()
    }

    pub(crate) fn collect(&mut self) {
        self.events.extend(std::iter::from_fn(|| self.connection.event()));
        self.completions.extend(std::iter::from_fn(|| self.connection.poll()));
    }

    pub(crate) fn output(&mut self, limit: usize) -> List {
        let mut out = List::new();
        let promised = self.connection.has_output();
        self.connection.transmit(&mut out, limit);
        assert_eq!(promised, !out.is_empty(), "has_output tells the truth");
        self.collect();
        out
    }

    pub(crate) fn fault(&self) -> Option<Error> {
        self.events.iter().find_map(|event| match event {
            Event::Fault(error) => Some(*error),
            _ => None,
        })
    }
}

pub(crate) fn carry(from: &mut End, to: &mut End, rng: &mut SmallRng) -> usize {
    let limit = if rng.random_bool(0.5) { 1 } else { rng.random_range(1..1 << 20) };
    to.incoming.extend(from.output(limit).to_vec());
    let cut = match rng.random_range(0..4) {
        0 => 1,
        1 => rng.random_range(1..100),
        2 => rng.random_range(1..10_000),
        _ => usize::MAX,
    };
    to.feed(cut)
}

pub(crate) fn settle(a: &mut End, b: &mut End, rng: &mut SmallRng) {
    loop {
        let moved = carry(a, b, rng) + carry(b, a, rng);
        let waiting = a.incoming.len() + b.incoming.len();
        let output = a.connection.has_output() || b.connection.has_output();
        if moved == 0 && !output {
            assert!(waiting == 0 || a.fault().is_some() || b.fault().is_some(), "{waiting} bytes stay");
            return;
        }
    }
}

pub(crate) fn pair(client: Config, server: Config, rng: &mut SmallRng) -> (End, End) {
    let (mut client, mut server) = (End::client(client, b"hello"), End::server(server));
    settle(&mut client, &mut server, rng);
    assert_eq!(server.events, [Event::Requested(b"hello".to_vec())]);
    server.connection.accept(b"welcome").unwrap();
    settle(&mut client, &mut server, rng);
    let ready = client.connection.is_ready() && server.connection.is_ready();
    assert!(ready, "{:?} {:?}", client.events, server.events);
    client.events.clear();
    server.events.clear();
    (client, server)
}

pub(crate) fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

pub(crate) fn noise(len: usize, rng: &mut SmallRng) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

pub(crate) fn scattered(bytes: &[u8], rng: &mut SmallRng) -> List {
    let mut list = List::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rng.random_range(1..=rest.len()));
        list.push(Segment::copy_from(now));
        rest = later;
    }
    list
}

pub(crate) fn filled(len: usize, byte: u8) -> SegmentMut {
    SegmentMut::from(vec![byte; len])
}
