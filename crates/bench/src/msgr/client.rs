//! The measuring half: keeps a number of requests in flight on each connection.

use super::endpoint::{Endpoint, Link, Role};
use super::load::{Load, POOL_IDLE};
use super::messages::{EchoRequest, Reply};
use crate::Error;
use crate::in_flight::InFlight;
use crate::row::latency_histogram;
use hdrhistogram::Histogram;
use onego_buf::{List, Pool, SegmentMut};
use onego_ceph::messages::Payload;
use onego_ceph::types::EntityName;
use onego_engine::{AnyEngine, EngineKind, Pump, Wait, open};
use onego_msgr::addr::EntityAddr;
use onego_msgr::auth::Login;
use onego_msgr::{Config, Connection, Message, Target};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Limit on opening, and on closing, all connections: both ends are on this machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Done {
    pub(super) engine: EngineKind,
    pub(super) ios: u64,
    pub(super) latency: Histogram<u64>,
    pub(super) seconds: f64,
    pub(super) system_calls: u64,
    /// All replies, including those after the measurement.
    pub(super) answered: u64,
}

pub(super) struct MessengerClient {
    pump: Pump<AnyEngine, Endpoint<Requester>>,
    io_depth: u32,
    span: (Time, Time),
    system_calls: u64,
}

impl MessengerClient {
    pub(super) fn connect(port: u16, load: &Load, seed: u64) -> Result<Self, Error> {
        let mut config = Config::client(std::process::id(), Pool::new(POOL_IDLE));
        config.keepalive = None;
        config.data_crc = load.end.crc;
        let (config, now) = (Arc::new(config), onego_engine::now());
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let target = Target {
            kind: EntityName::OSD,
            addr: EntityAddr::msgr2(addr, 0),
            login: Login::unproved("bench", false, 1),
        };
        let mut endpoint = Endpoint::new(Requester::new(load, seed));
        for _ in 0..load.connections {
            let connection = Connection::connect(now, Arc::clone(&config), target.clone());
            endpoint.connect(addr, connection, Progress::default());
        }
        let engine = open(load.end.engine).map_err(Error::io("opening an engine"))?;
        let mut pump = Pump::new(engine, endpoint);
        pump.set_spin(load.end.spin);
        let mut this = Self { pump, io_depth: load.io_depth, span: (now, now), system_calls: 0 };
        this.turn_until(|pump| pump.machine().role.ready == load.connections)?;
        Ok(this)
    }

    pub(super) fn run(
        &mut self,
        duration: Duration,
        mut told: impl FnMut(Duration) -> bool,
    ) -> Result<(), Error> {
        let calls = self.calls();
        let start = self.pump.now();
        let depth = self.io_depth;
        self.pump.machine_mut().role.end = start + duration;
        self.pump.machine_mut().on_each(|role, link| role.request(start, link, depth as usize));
        while self.pump.machine().role.now < start + duration {
            self.turn(Wait::Forever)?;
            if !told(self.pump.machine().role.now.since(start)) {
                break;
            }
        }
        let requester = &mut self.pump.machine_mut().role;
        self.span = (start, requester.now);
        // Later replies are checked, but do not count.
        requester.measured = Some((requester.answered, requester.latency.clone()));
        requester.end = requester.now;
        self.system_calls = self.calls() - calls;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Done, Error> {
        self.turn_until(|pump| pump.machine().role.in_flight == 0)?;
        self.pump.machine_mut().close_all();
        self.turn_until(|pump| pump.connections() == 0)?;
        let engine = self.pump.engine().kind();
        let Requester { answered, measured, latency, .. } = self.pump.into_machine().role;
        let (ios, latency) = measured.unwrap_or((answered, latency));
        let seconds = self.span.1.since(self.span.0).as_secs_f64();
        Ok(Done { engine, ios, latency, seconds, system_calls: self.system_calls, answered })
    }

    fn calls(&self) -> u64 {
        self.pump.stats().system_calls
    }

    fn turn(&mut self, wait: Wait) -> Result<(), Error> {
        self.pump.turn(wait).map_err(Error::io("waiting for events"))?;
        match self.pump.machine().role.failure.as_ref() {
            Some(why) => Err(Error::Failed(why.clone())),
            None => Ok(()),
        }
    }

    fn turn_until(
        &mut self,
        done: impl Fn(&Pump<AnyEngine, Endpoint<Requester>>) -> bool,
    ) -> Result<(), Error> {
        let end = self.pump.now() + PATIENCE;
        while !done(&self.pump) {
            if self.pump.now() >= end {
                return Err(Error::Failed(format!("connections do not open or close within {PATIENCE:?}")));
            }
            self.turn(Wait::Until(end))?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    next: u64,
    due: u64,
    /// Replies received together.
    fresh: usize,
    in_flight: InFlight,
}

pub(super) struct Requester {
    block_size: u32,
    /// Template of all requests that are not checked; only the number differs.
    request: EchoRequest,
    seed: Option<u64>,
    ready: u32,
    /// Time after which no request is sent.
    end: Time,
    now: Time,
    in_flight: u64,
    answered: u64,
    latency: Histogram<u64>,
    /// Replies and latencies at the end of the measurement.
    measured: Option<(u64, Histogram<u64>)>,
    failure: Option<String>,
}

impl Requester {
    fn new(load: &Load, seed: u64) -> Self {
        let mut payload = SegmentMut::zeroed(load.block_size as usize);
        SmallRng::seed_from_u64(seed).fill(&mut payload[..]);
        Self {
            block_size: load.block_size,
            request: EchoRequest { number: 0, seed: 0, length: load.block_size, data: payload.into() },
            seed: load.verify.then_some(seed.max(1)),
            ready: 0,
            end: Time::default(),
            now: Time::default(),
            in_flight: 0,
            answered: 0,
            latency: latency_histogram(),
            measured: None,
            failure: None,
        }
    }

    fn request(&mut self, now: Time, link: &mut Link<Progress>, n: usize) {
        for _ in 0..n {
            let number = link.state.next;
            link.state.next += 1;
            match self.seed {
                Some(seed) => link.send(number, &EchoRequest::with_pattern(number, seed, self.block_size)),
                None => {
                    self.request.number = number;
                    link.send(number, &self.request);
                }
            }
        }
        self.in_flight += n as u64;
        link.state.in_flight.sent(now, n);
    }
}

impl Role for Requester {
    type State = Progress;

    fn ready(&mut self) {
        self.ready += 1;
    }

    fn message(&mut self, link: &mut Link<Progress>, message: &Message) -> Result<(), String> {
        let reply = Reply::decode(message.header.version, &message.front, List::new())
            .map_err(|error| error.to_string())?;
        let due = link.state.due;
        if (reply.number, message.header.tid) != (due, due) {
            return Err(format!("the reply to request {} came where that to {due} was due", reply.number));
        }
        if reply.length != self.block_size {
            return Err(format!("request {due} had {} bytes, but {} came", self.block_size, reply.length));
        }
        link.state.due += 1;
        link.state.fresh += 1;
        Ok(())
    }

    fn told_all(&mut self, now: Time, link: &mut Link<Progress>) {
        let replies = std::mem::take(&mut link.state.fresh);
        if replies == 0 {
            return;
        }
        self.now = now;
        self.answered += replies as u64;
        self.in_flight -= replies as u64;
        link.state.in_flight.answered(now, replies, &mut self.latency);
        if now < self.end {
            self.request(now, link, replies);
        }
    }

    fn gone(&mut self, why: Option<String>) {
        if self.in_flight > 0 || why.is_some() {
            self.failure = Some(why.unwrap_or_else(|| "the serving half has closed a connection".to_owned()));
        }
    }
}
