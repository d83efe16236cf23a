//! A server, its clients, and what happens to them.

use crate::user::{User, client_addr, entropy, over_rdma};
use crate::volatile::Volatile;
use onego_buf::Pool;
use onego_engine::Pump;
use onego_nfs::client::Way;
use onego_server::nfs::{Export, Limits, Memory, Rdma, ServerMachine, Squash};
use onego_testkit::{Faults, Node, Sim, SimEngine};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENTS: u8 = 3;
/// Requests of each client.
const REQUESTS: u64 = 120;
/// How long a world may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What came of a world.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    trace: u64,
    pub(crate) crashes: u64,
    /// Writes that crashes have lost, and that came again.
    pub(crate) lost: u64,
    /// Reads that were given up.
    pub(crate) given_up: u64,
}

pub(crate) struct World {
    sim: Sim,
    random: SmallRng,
    fs: Volatile,
    server: Option<Pump<SimEngine, ServerMachine>>,
    users: Vec<User>,
    crashing: bool,
    crashes: u64,
    next_event: Time,
}

fn serve(sim: &Sim, fs: &Volatile) -> Pump<SimEngine, ServerMachine> {
    let tcp = SocketAddr::new(SERVER, 2049);
    let rdma = Rdma { entropy, ..Rdma::new(SocketAddr::new(SERVER, Rdma::PORT)) };
    let fs = Box::new(fs.clone());
    let export = Export { squash: Squash::None, secure: false, ..Export::default() };
    let machine = ServerMachine::new(vec![tcp], Some(&rdma), export, fs, Pool::new(1 << 20));
    Pump::new(sim.engine(SERVER), machine)
}

impl World {
    pub(crate) fn new(seed: u64, crashing: bool) -> Self {
        let mut sim = Sim::new(seed, Faults::none());
        let mut random = SmallRng::seed_from_u64(seed ^ 0x00f1_1e50);
        let limits = Limits { bytes: 1 << 30, files: 1 << 16 };
        let fs = Volatile::new(Memory::new(limits, seed, Pool::new(1 << 20), sim.now()));
        let mut server = serve(&sim, &fs);
        sim.run_for(&mut [&mut server], Duration::from_millis(10));
        sim.set_faults(Faults::random(seed));
        let users = (0..CLIENTS).map(|n| {
            let (port, way) = match random.random_range(0..3) {
                0 => (2049, Way::Tcp),
                1 => (Rdma::PORT, over_rdma(1 << 10)),
                _ => (Rdma::PORT, over_rdma(4 << 10)),
            };
            User::new(&sim, n, seed, &fs, SocketAddr::new(SERVER, port), &way)
        });
        let users = users.collect();
        let next_event = sim.now() + Duration::from_millis(20);
        Self { sim, random, fs, server: Some(server), users, crashing, crashes: 0, next_event }
    }

    pub(crate) fn run(mut self) -> Summary {
        let patience = self.sim.now() + PATIENCE;
        while self.users.iter().any(|user| user.made < REQUESTS) {
            let now = self.sim.now();
            assert!(now < patience, "the world does not get on");
            self.users.iter_mut().for_each(|user| user.make_requests(now, self.crashing, REQUESTS));
            self.step();
            self.happen();
        }
        self.sim.set_faults(Faults::none());
        self.sim.heal_all();
        self.rest(patience);
        let now = self.sim.now();
        self.users.iter_mut().for_each(|user| user.sync_all(now));
        self.rest(patience);
        self.fs.crash();
        let now = self.sim.now();
        for user in &self.users {
            user.check_content(now, &self.fs);
            user.check_names(now, &self.fs);
        }
        let given_up = self.users.iter().map(|user| user.given_up).sum();
        Summary { trace: self.sim.trace(), crashes: self.crashes, lost: self.fs.lost(), given_up }
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
            0 => self.sim.reset(client),
            1 => self.sim.cut(client, SERVER),
            2 => self.sim.heal_all(),
            _ if self.crashing => self.crash(),
            _ => self.sim.reset(SERVER),
        }
    }

    /// The server crashes and starts anew.
    fn crash(&mut self) {
        self.crashes += 1;
        self.server = None;
        self.fs.crash();
        self.server = Some(serve(&self.sim, &self.fs));
    }
}
