//! A cluster that keeps its state on a disk, for tests that say themselves what happens when.

use super::disk::{Disk, Storage};
use super::user::User;
use super::world::SERVER;
use onego_cluster::journal::Restored;
use onego_cluster::{ClusterMachine, Keeping, Settings};
use onego_engine::{Pump, Wait};
use onego_testkit::{Node, Sim, SimEngine};
use std::time::Duration;

/// Bytes of a log from which on there is a checkpoint: a few dozen small writes.
const LOG_LIMIT: u64 = 4_000;

/// Virtual time after which a request has its answer.
const PATIENCE: Duration = Duration::from_secs(100);

pub(crate) struct Kept {
    server: Option<Pump<SimEngine, ClusterMachine>>,
    storage: Option<Storage>,
    pub(crate) crashes: u64,
    /// Checkpoints of all lives.
    checkpoints: u32,
}

impl Kept {
    pub(crate) fn start(sim: &Sim, disk: Disk, settings: Settings) -> Self {
        let mut cluster = Self { server: None, storage: None, crashes: 0, checkpoints: 0 };
        cluster.begin(sim, disk, settings);
        cluster
    }

    fn begin(&mut self, sim: &Sim, disk: Disk, settings: Settings) {
        let restored = Restored::load(&disk, None, 1 + self.crashes).expect("what is on the disk is whole");
        self.storage = Some(Storage::begin(disk, restored.log(), self.crashes).expect("the disk is well"));
        let machine = ClusterMachine::kept(settings, Keeping { restored, log_limit: LOG_LIMIT });
        let mut server = Pump::new(sim.engine(SERVER), machine);
        while server.machine().addresses().is_none() {
            server.turn(Wait::Poll).expect("the simulated engine does not fail");
        }
        self.server = Some(server);
    }

    /// The power goes and comes back.
    pub(crate) fn crash(&mut self, sim: &Sim, settings: Settings) {
        self.crashes += 1;
        self.checkpoints = self.checkpoints();
        self.server = None;
        if let Some(storage) = self.storage.take() {
            storage.disk.crash();
            self.begin(sim, storage.disk, settings);
        }
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.storage.as_ref().expect("the cluster runs").disk
    }

    pub(crate) fn checkpoints(&self) -> u32 {
        self.checkpoints + self.storage.as_ref().map_or(0, |storage| storage.checkpoints)
    }

    pub(crate) fn pool(&self) -> i64 {
        let server = self.server.as_ref().expect("the cluster runs");
        server.machine().osdmap().and_then(|map| map.pool_id("rbd")).expect("there is a pool")
    }

    /// Has the disk failed? Then the cluster must end.
    pub(crate) fn has_failed(&self) -> bool {
        self.storage.as_ref().is_some_and(|storage| storage.failed)
    }

    pub(crate) fn machine_mut(&mut self) -> &mut ClusterMachine {
        self.server.as_mut().expect("the cluster runs").machine_mut()
    }

    /// One step of cluster, clients and disk.
    pub(crate) fn step(&mut self, sim: &mut Sim, users: &mut [User]) {
        let (Some(server), Some(storage)) = (&mut self.server, &mut self.storage) else { return };
        let mut nodes: Vec<&mut dyn Node> = vec![server, storage];
        nodes.extend(users.iter_mut().map(|user| &mut user.pump as &mut dyn Node));
        sim.step(&mut nodes);
        let now = sim.now();
        for done in storage.results() {
            server.machine_mut().done(now, done);
        }
        while server.machine().has_job()
            && let Some(job) = server.machine_mut().next_job()
        {
            storage.take(now, job);
        }
        users.iter_mut().for_each(User::take_replies);
    }

    /// Runs for that long.
    pub(crate) fn run_for(&mut self, sim: &mut Sim, users: &mut [User], time: Duration) {
        let end = sim.now() + time;
        sim.stop_at(end);
        // What the disk has done is to be told in between.
        while sim.now() < end {
            self.step(sim, users);
        }
    }

    /// Runs until the clients have all of their replies, on a disk that does not fail.
    pub(crate) fn run_until_answered(&mut self, sim: &mut Sim, users: &mut [User]) {
        let end = sim.now() + PATIENCE;
        while users.iter().any(|user| !user.waiting.is_empty()) {
            self.step(sim, users);
            assert!(!self.has_failed(), "the disk fails");
            assert!(sim.now() < end, "a request has no reply");
        }
    }
}
