//! The cluster, its clients, and what happens to them.

use super::disk::{Disk, Storage};
use super::user::{OBJECTS, User, client_addr};
use super::wire::Wire;
use onego_ceph::osdmap::flag;
use onego_ceph::types::Uuid;
use onego_cluster::journal::{DataError, Restored};
use onego_cluster::{ClusterMachine, Keeping, NewPool, OsdSettings, Settings};
use onego_engine::{Pump, Wait};
use onego_testkit::{Faults, Node, Sim, SimEngine};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENTS: u8 = 2;

/// Most OSDs of a cluster.
const MAX_OSDS: u8 = 4;

/// More epochs than a monitor keeps the changes of: who is so far behind gets a whole map.
const FORGOTTEN: u32 = 1200;

/// Most pools of a cluster.
const MAX_POOLS: usize = 12;

/// The disk is full.
const ENOSPC: i32 = 28;

/// Bytes that an OSD holds.
const MEMORY: u64 = 1 << 30;

/// Requests of a client. Those of a cluster that crashes take a while.
const REQUESTS: u64 = 150;
const REQUESTS_KEPT: u64 = 400;

/// After that much virtual time without faults, a request that has no reply never will have one.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a run comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) trace: u64,
    replies: u64,
    events: u32,
    pub(crate) crashes: u32,
    virtual_time: Duration,
    /// How often the keys of services have changed, and how many tickets were too old.
    pub(crate) rotations: u64,
    pub(crate) refused_tickets: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} replies, {} events, {} crashes, {} rotations of keys and {} refused tickets in {:?} of virtual time, \
             trace {:016x}",
            self.replies,
            self.events,
            self.crashes,
            self.rotations,
            self.refused_tickets,
            self.virtual_time,
            self.trace
        )
    }
}

pub(crate) struct World {
    seed: u64,
    wire: Wire,
    sim: Sim,
    random: SmallRng,
    server: Server,
    /// Keeps the cluster's state, if anything does.
    storage: Option<Storage>,
    pub(crate) crashes: u32,
    /// Replies after which there is a crash.
    next_crash: u64,
    clients: Vec<User>,
    pool: i64,
    pg_num: u32,
    events: u32,
    next_event: Time,
    paused_until: Option<Time>,
    osds: u8,
    size: u32,
    /// OSDs that are stopped, and when they are started.
    stopped: BTreeMap<i32, Time>,
    /// OSDs that are marked out.
    out: BTreeSet<i32>,
}

impl World {
    /// The world of a seed. `kept`: its cluster keeps its state, and crashes.
    pub(crate) fn new(seed: u64, kept: bool) -> Self {
        let mut sim = Sim::new(seed, Faults::none());
        let mut random = SmallRng::seed_from_u64(seed ^ 0x0051_7e57);
        let osds = random.random_range(1..=MAX_OSDS);
        let size = u32::from(random.random_range(1..=osds.min(3)));
        let faults = Faults::random(seed);
        let wire = Wire::of_seed(seed, &faults);
        let settings = settings(&wire, 0, osds, size);
        let (machine, storage) = if kept {
            let (machine, storage) = restore(Disk::new(seed), settings, &mut random);
            (machine, Some(storage))
        } else {
            (ClusterMachine::new(settings), None)
        };
        let mut server = Server(Some(Pump::new(sim.engine(SERVER), machine)));
        sim.run_for(&mut [server.pump()], Duration::from_millis(10));
        let map = server.machine().osdmap().expect("the cluster is up");
        let pool = map.pool_id("rbd").expect("the cluster has a pool");
        let pg_num = map.pools[&pool].pg_num;
        sim.set_faults(faults);
        let clients = (0..CLIENTS).map(|n| User::new(&sim, &wire, n, seed)).collect();
        let next_event = sim.now() + Duration::from_millis(50);
        Self {
            seed,
            wire,
            random,
            osds,
            size,
            server,
            storage,
            crashes: 0,
            next_crash: 0,
            clients,
            pool,
            pg_num,
            events: 0,
            next_event,
            paused_until: None,
            stopped: BTreeMap::new(),
            out: BTreeSet::new(),
            sim,
        }
    }

    pub(crate) fn run(mut self) -> Summary {
        let start = self.sim.now();
        let requests = if self.storage.is_some() { REQUESTS_KEPT } else { REQUESTS };
        while self.clients.iter().any(|user| user.made < requests) {
            for user in &mut self.clients {
                user.make_requests(&mut self.random, self.pool, requests, self.wire.lifetime());
            }
            self.step();
            self.happen();
        }
        self.end_faults();
        self.wait_for_replies();
        for user in &mut self.clients {
            user.read_everything(self.pool);
        }
        self.wait_for_replies();
        if self.storage.is_some() {
            // Everything was acknowledged: it is all there again. That OSDs were taken in may not have been durable.
            self.crash();
            self.end_faults();
            for user in &mut self.clients {
                user.read_everything(self.pool);
            }
            self.wait_for_replies();
        }
        self.wait_until_clean();
        let replies = self.clients.iter().map(|user| user.replies).sum();
        let virtual_time = self.sim.now().since(start);
        let rounds = if self.storage.is_some() { 2 } else { 1 };
        let expected = u64::from(CLIENTS) * (requests + rounds * 2 * OBJECTS as u64);
        assert_eq!(replies, expected, "seed {}: every request has one reply", self.seed);
        Summary {
            trace: self.sim.trace(),
            replies,
            events: self.events,
            crashes: self.crashes,
            rotations: self.wire.rotations(virtual_time),
            refused_tickets: self.clients.iter().map(|user| user.refused_tickets).sum(),
            virtual_time,
        }
    }

    fn step(&mut self) {
        let mut nodes: Vec<&mut dyn Node> = vec![self.server.pump()];
        nodes.extend(self.clients.iter_mut().map(|user| &mut user.pump as &mut dyn Node));
        nodes.extend(self.storage.iter_mut().map(|storage| storage as &mut dyn Node));
        self.sim.step(&mut nodes);
        self.keep();
        for user in &mut self.clients {
            user.take_replies();
        }
    }

    /// Hands on what passes between the cluster and its disk.
    fn keep(&mut self) {
        let Some(storage) = &mut self.storage else { return };
        let now = self.sim.now();
        for done in storage.results() {
            self.server.machine_mut().done(now, done);
        }
        while self.server.machine().has_job()
            && let Some(job) = self.server.machine_mut().next_job()
        {
            storage.take(now, job);
        }
        if storage.failed {
            self.crash();
        }
    }

    /// Crashes now and then, in the middle of whatever the disk does: a record, a checkpoint, a new log.
    fn lose_power(&mut self) {
        let replies = self.clients.iter().map(|user| user.replies).sum::<u64>();
        let Some(storage) = self.storage.as_ref().filter(|_| replies >= self.next_crash) else { return };
        self.next_crash = replies + self.random.random_range(5..100);
        match self.random.random() {
            true => self.crash(),
            false => storage.disk.fail_after(self.random.random_range(1..60), ENOSPC),
        }
    }

    /// The cluster's machine loses its power, and gets it back. It may lose it again while it starts.
    fn crash(&mut self) {
        let Some(storage) = self.storage.take() else { return };
        self.crashes += 1;
        self.server.0 = None;
        storage.disk.crash();
        let settings = settings(&self.wire, self.crashes, self.osds, self.size);
        let (machine, storage) = restore(storage.disk, settings, &mut self.random);
        self.server.0 = Some(Pump::new(self.sim.engine(SERVER), machine));
        self.storage = Some(storage);
        while self.server.machine().addresses().is_none() {
            self.server.pump().turn(Wait::Poll).expect("the simulated engine does not fail");
        }
        // What was not durable has not happened.
        let map = self.server.machine().osdmap().expect("the cluster is up");
        self.pg_num = map.pools[&self.pool].pg_num;
        self.out =
            (0..).zip(&map.osd_weight).filter(|(_, weight)| **weight == 0).map(|(osd, _)| osd).collect();
        self.stopped.clear();
        if map.has_flag(flag::PAUSERD) {
            self.paused_until.get_or_insert(self.sim.now());
        }
    }

    /// Lets something happen now and then.
    fn happen(&mut self) {
        self.lose_power();
        let now = self.sim.now();
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.server.machine_mut().set_flags(now, flag::PAUSERD | flag::PAUSEWR, false);
        }
        let due: Vec<i32> =
            self.stopped.iter().filter(|(_, until)| **until <= now).map(|(osd, _)| *osd).collect();
        for osd in due {
            self.stopped.remove(&osd);
            self.server.machine_mut().start_osd(now, osd);
        }
        if now < self.next_event {
            return;
        }
        self.next_event = now + Duration::from_millis(self.random.random_range(5..400));
        self.events += 1;
        let osd = i32::from(self.random.random_range(0..self.osds));
        let is_stopped = self.stopped.contains_key(&osd);
        let machine = self.server.machine_mut();
        match self.random.random_range(0..11) {
            0 => {
                // Now and then there are more new maps than the monitor keeps changes for.
                let epochs = if self.random.random_range(0..20) == 0 { FORGOTTEN } else { 1 };
                for _ in 0..epochs {
                    machine.touch_map(now);
                }
            }
            1 if !is_stopped => machine.restart_osd(now, osd),
            2 | 8 if !is_stopped => {
                // Now and then it comes back with nothing, if the others have all that it has.
                let clean = machine.is_clean() && self.size > 1;
                machine.stop_osd(now, osd);
                if clean && self.random.random() {
                    machine.wipe_osd(osd);
                }
                self.stopped.insert(osd, now + Duration::from_millis(self.random.random_range(1..2000)));
            }
            9 => {
                let taken_in = !self.out.insert(osd) && self.out.remove(&osd);
                machine.mark_osd(now, osd, taken_in);
            }
            10 => {
                machine.mark_osd_down(now, osd);
            }
            3 if self.paused_until.is_none() => {
                // Both: reads do not wait for writes that are paused (Objecter.cc, target_should_be_paused).
                let flags = flag::PAUSERD | flag::PAUSEWR;
                machine.set_flags(now, flags, true);
                self.paused_until = Some(now + Duration::from_millis(self.random.random_range(1..500)));
            }
            4 if self.pg_num < 256 => {
                self.pg_num += self.random.random_range(1..20);
                machine.set_pg_num(now, self.pool, self.pg_num);
            }
            // Each start does all of this again.
            5 if machine.osdmap().is_some_and(|map| map.pools.len() < MAX_POOLS) => {
                machine.create_pool(now, &NewPool::for_images(format!("pool{}", self.events)));
            }
            _ => {
                let client = self.random.random_range(0..CLIENTS);
                self.sim.reset(client_addr(client));
            }
        }
    }

    fn end_faults(&mut self) {
        let now = self.sim.now();
        if let Some(storage) = &self.storage {
            storage.disk.fail_after(u64::MAX, 0);
        }
        self.sim.set_faults(Faults::none());
        self.sim.heal_all();
        let machine = self.server.machine_mut();
        machine.set_flags(now, flag::PAUSERD | flag::PAUSEWR, false);
        for osd in std::mem::take(&mut self.stopped).into_keys() {
            machine.start_osd(now, osd);
        }
        for osd in std::mem::take(&mut self.out) {
            machine.mark_osd(now, osd, true);
        }
        self.paused_until = None;
    }

    /// All OSDs catch up in the end.
    fn wait_until_clean(&mut self) {
        let deadline = self.sim.now() + PATIENCE;
        while !self.server.machine().is_clean() {
            assert!(self.sim.now() < deadline, "seed {}: OSDs never catch up", self.seed);
            self.step();
        }
    }

    fn wait_for_replies(&mut self) {
        let deadline = self.sim.now() + PATIENCE;
        while self.clients.iter().any(|user| !user.waiting.is_empty()) {
            self.step();
            if self.sim.now() > deadline {
                let waiting: Vec<_> = self.clients.iter().flat_map(|user| user.waiting.values()).collect();
                panic!(
                    "seed {}: {} requests never have a reply, as {}",
                    self.seed,
                    waiting.len(),
                    waiting[0].what
                );
            }
        }
    }
}

/// The server, which is away while it is exchanged.
struct Server(Option<Pump<SimEngine, ClusterMachine>>);

impl Server {
    fn pump(&mut self) -> &mut Pump<SimEngine, ClusterMachine> {
        self.0.as_mut().expect("the server is there between steps")
    }

    fn machine(&self) -> &ClusterMachine {
        self.0.as_ref().expect("the server is there between steps").machine()
    }

    fn machine_mut(&mut self) -> &mut ClusterMachine {
        self.pump().machine_mut()
    }
}

/// What the cluster is told to be, after `crashes` crashes.
pub(crate) fn settings(wire: &Wire, crashes: u32, osds: u8, size: u32) -> Settings {
    Settings {
        registrable: 0,
        fsid: Uuid([7; 16]),
        mon: Wire::addrs(SERVER, 3300),
        mgr: onego_msgr::addr::AddrVec::default(),
        osds: (0..osds).map(osd_settings).collect(),
        memory_limit: MEMORY,
        null_writes: false,
        pools: vec![NewPool { size: Some(size), ..NewPool::for_images("rbd") }],
        cephx: wire.cephx(crashes),
        compression: wire.compression.clone(),
    }
}

/// A cluster that goes on with what is on a disk. Now and then the power goes while that is read.
fn restore(disk: Disk, settings: Settings, random: &mut SmallRng) -> (ClusterMachine, Storage) {
    if random.random_range(0..4) == 0 {
        disk.fail_after(random.random_range(1..12), ENOSPC);
        let begun = Restored::load(&disk, Some(MEMORY), random.random())
            .map(|restored| Storage::begin(disk.clone(), restored.log(), 0).map(drop));
        assert!(
            matches!(begun, Ok(_) | Err(DataError::Files { .. } | DataError::File { .. })),
            "{:?}",
            begun.err()
        );
        disk.crash();
    }
    let restored = Restored::load(&disk, Some(MEMORY), random.random())
        .unwrap_or_else(|error| panic!("after a crash: {error}"));
    let storage = Storage::begin(disk, restored.log(), random.random()).expect("the disk is well");
    // Small logs, so that there are checkpoints.
    let keeping = Keeping { restored, log_limit: random.random_range(1_000..1_000_000) };
    (ClusterMachine::kept(settings, keeping), storage)
}

fn osd_settings(n: u8) -> OsdSettings {
    OsdSettings::new(Uuid([8 + n; 16]), Wire::addrs(SERVER, 6800 + u16::from(n)))
}
