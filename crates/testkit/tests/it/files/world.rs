//! A server, its clients, and what happens to them.

use crate::files::server::{self, Counts, Execution, Server};
use crate::files::store::Store;
use crate::files::user::{Operation, User, client_addr, over_rdma};
use onego_nfs::client::Way;
use onego_testkit::{Faults, Node, Sim};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const CLIENTS: u8 = 3;
/// Requests of each client.
const REQUESTS: u64 = 120;
/// How long a world may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The outcome of a world.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// A hash of all that happened, without the bytes.
    course: u64,
    /// A hash of all that happened, where the bytes are the same in each run.
    trace: Option<u64>,
    pub(crate) crashes: u64,
    /// Times that the world has reset connections, and cut links.
    pub(crate) resets: u64,
    pub(crate) cuts: u64,
    /// Writes that crashes have lost, and that came again.
    pub(crate) lost: u64,
    /// The jobs of servers.
    pub(crate) jobs: Counts,
    /// Reads that were given up.
    pub(crate) given_up: u64,
    /// Operations that have succeeded.
    pub(crate) succeeded: BTreeMap<Operation, u64>,
}

impl Summary {
    pub(crate) fn add(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.resets += other.resets;
        self.cuts += other.cuts;
        self.lost += other.lost;
        self.jobs.add(other.jobs);
        self.given_up += other.given_up;
        for (operation, count) in &other.succeeded {
            *self.succeeded.entry(*operation).or_default() += count;
        }
    }
}

/// A server of a file system, and its clients.
pub(crate) struct World<S: Store> {
    seed: u64,
    sim: Sim,
    random: SmallRng,
    fs: S,
    execution: Execution,
    server: Option<Server<S>>,
    users: Vec<User>,
    crashing: bool,
    crashes: u64,
    resets: u64,
    cuts: u64,
    /// The jobs of earlier servers.
    jobs: Counts,
    next_event: Time,
}

impl<S: Store> World<S> {
    pub(crate) fn new(seed: u64, crashing: bool) -> Self {
        let mut sim = Sim::new(seed, Faults::none());
        let mut random = SmallRng::seed_from_u64(seed ^ 0x00f1_1e50);
        let fs = S::new(seed, sim.now());
        let execution = if random.random() { Execution::Inline } else { Execution::Jobs };
        let mut server = Server::new(&sim, &fs, execution, seed << 32);
        sim.run_for(&mut [&mut server], Duration::from_millis(10));
        sim.set_faults(Faults::random(seed));
        let users = (0..CLIENTS).map(|n| {
            let (addr, way) = match random.random_range(0..3) {
                0 => (server::TCP, Way::Tcp),
                1 => (server::RDMA, over_rdma(1 << 10)),
                _ => (server::RDMA, over_rdma(4 << 10)),
            };
            User::new(&sim, n, seed, &fs, addr, &way)
        });
        let users = users.collect();
        let next_event = sim.now() + Duration::from_millis(20);
        Self {
            seed,
            sim,
            random,
            fs,
            execution,
            server: Some(server),
            users,
            crashing,
            crashes: 0,
            resets: 0,
            cuts: 0,
            jobs: Counts::default(),
            next_event,
        }
    }

    pub(crate) fn run(mut self) -> Summary {
        let patience = self.sim.now() + PATIENCE;
        while self.users.iter().any(|user| user.made < REQUESTS) {
            let now = self.sim.now();
            assert!(now < patience, "the world does not get on");
            self.users.iter_mut().for_each(|user| user.make_requests(now, &self.fs, self.crashing, REQUESTS));
            self.step();
            self.happen();
        }
        self.sim.set_faults(Faults::none());
        self.sim.heal_all();
        self.rest(patience);
        let now = self.sim.now();
        self.users.iter_mut().for_each(|user| user.sync_all(now));
        self.rest(patience);
        self.stop();
        let now = self.sim.now();
        for user in &self.users {
            user.check_content(now, &self.fs);
            user.check_names(now, &self.fs);
        }
        self.summary()
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary {
            course: self.sim.course(),
            trace: S::HAS_SAME_BYTES.then(|| self.sim.trace()),
            crashes: self.crashes,
            resets: self.resets,
            cuts: self.cuts,
            lost: self.fs.lost_writes(),
            jobs: self.jobs,
            given_up: self.users.iter().map(|user| user.given_up).sum(),
            succeeded: BTreeMap::new(),
        };
        for (operation, count) in self.users.iter().flat_map(|user| &user.succeeded) {
            *summary.succeeded.entry(*operation).or_default() += count;
        }
        summary
    }

    /// Waits until everything is answered.
    fn rest(&mut self, patience: Time) {
        while !self.users.iter().all(User::is_idle) {
            assert!(self.sim.now() < patience, "requests are not answered");
            self.step();
        }
    }

    fn step(&mut self) {
        let mut nodes: Vec<&mut dyn Node> = Vec::new();
        nodes.extend(self.server.as_mut().map(|server| server as &mut dyn Node));
        nodes.extend(self.users.iter_mut().map(|user| &mut user.pump as &mut dyn Node));
        self.sim.step(&mut nodes);
        let now = self.sim.now();
        self.users.iter_mut().for_each(|user| user.take_replies(now, &self.fs));
    }

    /// Lets something happen now and then: connections are reset, and the server crashes.
    fn happen(&mut self) {
        let now = self.sim.now();
        if now < self.next_event {
            return;
        }
        self.next_event = now + Duration::from_millis(self.random.random_range(5..200));
        let client = client_addr(self.random.random_range(0..CLIENTS));
        match self.random.random_range(0..4) {
            0 => self.reset(client),
            1 => {
                self.cuts += 1;
                self.sim.cut(client, server::ADDR);
            }
            2 => self.sim.heal_all(),
            _ if self.crashing => self.crash(),
            _ => self.reset(server::ADDR),
        }
    }

    fn reset(&mut self, addr: IpAddr) {
        self.resets += 1;
        self.sim.reset(addr);
    }

    /// The server crashes and starts anew.
    fn crash(&mut self) {
        self.crashes += 1;
        self.stop();
        let seed = self.seed << 32 ^ self.crashes;
        self.server = Some(Server::new(&self.sim, &self.fs, self.execution, seed));
    }

    /// The server crashes.
    fn stop(&mut self) {
        self.jobs.add(self.server.take().map_or_else(Counts::default, |server| server.counts()));
        self.fs.crash();
    }
}
