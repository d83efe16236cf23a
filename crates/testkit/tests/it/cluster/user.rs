//! A client of a world, what it asks for and what must come of it.

use super::model::{Expected, Model, random_op, request, small_write};
use super::wire::Wire;
use super::world::SERVER;
use onego_buf::{Pool, SegmentMut};
use onego_ceph::client::{Client, Config, Error, Event, OpReply, Outcome};
use onego_ceph::ops::Op;
use onego_engine::Pump;
use onego_msgr::auth::{self, Secret};
use onego_testkit::{Sim, SimEngine};
use onego_wire::Time;
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Objects of each client.
pub(crate) const OBJECTS: usize = 4;

/// Requests after which a client rests that has tickets.
const REST_EVERY: u64 = 50;

/// Requests of a client in flight.
const DEPTH: usize = 24;

/// A client and what it waits for.
pub(crate) struct User {
    pub(crate) pump: Pump<SimEngine, Client<u64>>,
    name: usize,
    models: Vec<Model>,
    pub(crate) waiting: BTreeMap<u64, WaitingOp>,
    /// Broken connections and new maps: what makes a client send requests again.
    disturbances: u64,
    pub(crate) refused_tickets: u64,
    rests_until: Time,
    pub(crate) made: u64,
    submitted: u64,
    pub(crate) replies: u64,
}

/// A request without a reply.
pub(crate) struct WaitingOp {
    pub(crate) what: String,
    object: usize,
    op: Op,
    place: usize,
    expected: Expected,
    disturbances: u64,
}

pub(crate) fn client_addr(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 10 + n))
}

impl User {
    pub(crate) fn new(sim: &Sim, wire: &Wire, n: u8, seed: u64) -> Self {
        let engine = sim.engine(client_addr(n));
        let monitors = vec![Wire::addrs(SERVER, 3300)];
        let mut config = Config::new(monitors, "admin", Pool::new(1 << 20));
        (config.versions, config.credentials) = (wire.versions, wire.credentials());
        config.seed = seed;
        config.secret_seed = Secret::new(wire.secret(2, n.into()).to_vec());
        config.nonce = u32::from(n) + 1;
        config.compression = wire.compression.clone();
        let client = Client::new(sim.now(), &config);
        Self {
            pump: Pump::new(engine, client),
            name: n.into(),
            models: vec![Model::default(); OBJECTS],
            waiting: BTreeMap::new(),
            rests_until: Time::default(),
            made: 0,
            submitted: 0,
            disturbances: 0,
            refused_tickets: 0,
            replies: 0,
        }
    }

    /// Makes as many requests as may be in flight. If there are tickets, the client rests now and then for about as long
    /// as they are good.
    pub(crate) fn make_requests(
        &mut self,
        random: &mut SmallRng,
        pool: i64,
        requests: u64,
        lifetime: Option<Duration>,
    ) {
        let now = self.pump.now();
        while self.made < requests && self.waiting.len() < DEPTH && self.rests_until <= now {
            let object = random.random_range(0..OBJECTS);
            let op = random_op(random, self.submitted << 8 | self.name as u64);
            let buffered = random.random();
            self.submit(pool, object, op, buffered);
            self.made += 1;
            if let Some(lifetime) = lifetime
                && self.made.is_multiple_of(REST_EVERY)
            {
                self.rests_until = now + random.random_range(Duration::ZERO..=2 * lifetime);
            }
        }
    }

    /// Makes a request that writes little, and that must not be carried out twice.
    pub(crate) fn make_small_write(&mut self, random: &mut SmallRng, pool: i64) {
        let object = random.random_range(0..OBJECTS);
        let op = small_write(random, self.submitted << 8 | self.name as u64);
        self.submit(pool, object, op, false);
    }

    fn submit(&mut self, pool: i64, object: usize, op: Op, buffered: bool) {
        let now = self.pump.now();
        let ticket = self.submitted;
        self.submitted += 1;
        let what = format!("client {} request {ticket} to object {object}: {}", self.name, short(&op));
        let (expected, place) = self.models[object].apply(&op);
        let mut request = request(pool, &format!("object-{}-{object}", self.name), op.clone());
        if let (Op::Read { length, .. }, true) = (&op, buffered) {
            request.read_into = Some(SegmentMut::zeroed(*length as usize));
        }
        let waiting = WaitingOp { what, object, op, place, expected, disturbances: self.disturbances };
        assert!(self.waiting.insert(ticket, waiting).is_none(), "tickets are different");
        let submitted = self.pump.machine_mut().submit(now, request, ticket);
        assert!(submitted.is_ok(), "there is room for a few requests");
    }

    pub(crate) fn take_replies(&mut self) {
        if !self.pump.machine().has_news() {
            return; // to touch the machine would be to give it a turn
        }
        while let Some(event) = self.pump.machine_mut().poll_event() {
            self.disturbances += u64::from(matches!(event, Event::Fault { .. } | Event::Map(_)));
            self.refused_tickets += u64::from(is_refused_ticket(&event));
        }
        while let Some(completion) = self.pump.machine_mut().poll_completion() {
            let ticket = completion.ticket;
            let waiting = self.waiting.remove(&ticket);
            let waiting = waiting.unwrap_or_else(|| panic!("request {ticket} is completed twice"));
            match completion.outcome {
                Ok(Outcome::Reply(reply)) => self.check(&waiting, &reply, completion.buffer.as_deref()),
                other => panic!("{}: {other:?}", waiting.what),
            }
            self.replies += 1;
        }
    }

    fn check(&self, waiting: &WaitingOp, reply: &OpReply, buffer: Option<&[u8]>) {
        let seen = Expected::seen(&waiting.op, reply, buffer);
        let made_again = self.disturbances != waiting.disturbances && !waiting.op.writes();
        let model = &self.models[waiting.object];
        let explained = made_again && model.explains(&waiting.op, waiting.place, &seen);
        assert!(
            seen == waiting.expected || explained,
            "{}: {}",
            waiting.what,
            seen.difference(&waiting.expected)
        );
    }

    /// Reads all objects whole, data and map.
    pub(crate) fn read_everything(&mut self, pool: i64) {
        for object in 0..OBJECTS {
            self.submit(pool, object, Op::Read { offset: 0, length: 1 << 20 }, false);
            let map = Op::OmapGetVals { after: Vec::new(), max: 100, prefix: Vec::new() };
            self.submit(pool, object, map, false);
        }
    }
}

/// Did a daemon not take a ticket?
fn is_refused_ticket(event: &Event) -> bool {
    use auth::Error::{Refused, TicketRefused};
    let Event::Fault { error: Error::Connection(onego_msgr::Error::Auth(error)), .. } = event else {
        return false;
    };
    matches!(error, Refused { .. } | TicketRefused { .. })
}

/// An operation without its bytes.
fn short(op: &Op) -> String {
    match op {
        Op::Write { offset, data } => format!("write {} bytes at {offset}", data.len()),
        Op::WriteFull { data } => format!("write {} bytes alone", data.len()),
        Op::Append { data } => format!("append {:?}", data.to_vec()),
        other => format!("{other:?}"),
    }
}
