//! The embedded cluster, which may keep its state on a disk and crash, and whose OSDs go and come.

use crate::cluster::disk::{Disk, Storage};
use onego_ceph::types::Uuid;
use onego_cluster::journal::Restored;
use onego_cluster::{ClusterMachine, Keeping, NewPool, OsdSettings, Settings};
use onego_engine::{Pump, Wait};
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_testkit::{Node, Sim, SimEngine};
use onego_wire::Time;
use rand::Rng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Most OSDs of a cluster.
const MAX_OSDS: u8 = 3;

const ENOSPC: i32 = 28;

pub(crate) struct SimCluster {
    pump: Option<Pump<SimEngine, ClusterMachine>>,
    /// Keeps the cluster's state, if anything does.
    storage: Option<Storage>,
    osds: u8,
    copies: u32,
    /// OSDs that are stopped, and when they are started.
    stopped: BTreeMap<i32, Time>,
    pub(crate) crashes: u64,
    pub(crate) outages: u64,
}

impl SimCluster {
    /// `is_kept`: it keeps its state on a disk.
    pub(crate) fn start(sim: &Sim, seed: u64, is_kept: bool, random: &mut SmallRng) -> Self {
        let osds = random.random_range(1..=MAX_OSDS);
        let copies = u32::from(random.random_range(1..=osds.min(2)));
        let (pump, storage, stopped) = (None, None, BTreeMap::new());
        let mut server = Self { pump, storage, osds, copies, stopped, crashes: 0, outages: 0 };
        if is_kept {
            server.begin_kept(sim, Disk::new(seed), random);
        } else {
            server.begin(sim, ClusterMachine::new(server.settings()));
        }
        server
    }

    /// Where its monitor is.
    pub(crate) fn monitor() -> AddrVec {
        addrs(3300)
    }

    fn settings(&self) -> Settings {
        let osd = |n: u8| OsdSettings::new(Uuid([8 + n; 16]), addrs(6800 + u16::from(n)));
        Settings {
            registrable: 0,
            fsid: Uuid([9; 16]),
            mon: Self::monitor(),
            mgr: AddrVec::default(),
            osds: (0..self.osds).map(osd).collect(),
            memory_limit: 1 << 30,
            null_writes: false,
            pools: vec![NewPool { size: Some(self.copies), ..NewPool::for_images("rbd") }],
            cephx: None,
            compression: None,
        }
    }

    fn begin_kept(&mut self, sim: &Sim, disk: Disk, random: &mut SmallRng) {
        let restored = Restored::load(&disk, None, random.random())
            .unwrap_or_else(|error| panic!("after a crash: {error}"));
        self.storage = Some(Storage::begin(disk, restored.log(), random.random()).expect("the disk is well"));
        // Small logs, so that there are checkpoints.
        let keeping = Keeping { restored, log_limit: random.random_range(10_000..3_000_000) };
        let machine = ClusterMachine::kept(self.settings(), keeping);
        self.begin(sim, machine);
    }

    fn begin(&mut self, sim: &Sim, machine: ClusterMachine) {
        let mut pump = Pump::new(sim.engine(SERVER), machine);
        while pump.machine().addresses().is_none() {
            pump.turn(Wait::Poll).expect("the simulated engine does not fail");
        }
        self.pump = Some(pump);
    }

    /// What a simulation runs.
    pub(crate) fn nodes(&mut self) -> Vec<&mut dyn Node> {
        let pump = self.pump.iter_mut().map(|pump| pump as &mut dyn Node);
        pump.chain(self.storage.iter_mut().map(|storage| storage as &mut dyn Node)).collect()
    }

    pub(crate) fn machine_mut(&mut self) -> &mut ClusterMachine {
        self.pump.as_mut().expect("the cluster runs").machine_mut()
    }

    /// Hands on what passes between the cluster and its disk. After an error of the disk it crashes.
    pub(crate) fn keep(&mut self, sim: &Sim, random: &mut SmallRng) {
        let (Some(storage), Some(pump)) = (&mut self.storage, &mut self.pump) else { return };
        for done in storage.results() {
            pump.machine_mut().done(sim.now(), done);
        }
        while pump.machine().has_job()
            && let Some(job) = pump.machine_mut().next_job()
        {
            storage.take(sim.now(), job);
        }
        if storage.failed {
            self.crash(sim, random);
        }
    }

    /// Loses its power, at once or in the middle of what the disk does next, and gets it back.
    pub(crate) fn lose_power(&mut self, sim: &Sim, random: &mut SmallRng) {
        match &self.storage {
            Some(storage) if random.random() => storage.disk.fail_after(random.random_range(1..60), ENOSPC),
            Some(_) => self.crash(sim, random),
            None => {}
        }
    }

    fn crash(&mut self, sim: &Sim, random: &mut SmallRng) {
        let Some(storage) = self.storage.take() else { return };
        self.crashes += 1;
        self.pump = None;
        self.stopped.clear();
        storage.disk.crash();
        self.begin_kept(sim, storage.disk, random);
    }

    /// Stops an OSD for a while, if none is stopped.
    pub(crate) fn stop_osd(&mut self, now: Time, random: &mut SmallRng) {
        let osd = i32::from(random.random_range(0..self.osds));
        if self.stopped.is_empty() {
            self.outages += 1;
            self.machine_mut().stop_osd(now, osd);
            self.stopped.insert(osd, now + Duration::from_millis(random.random_range(1..2000)));
        }
    }

    pub(crate) fn restart_osd(&mut self, now: Time, random: &mut SmallRng) {
        let osd = i32::from(random.random_range(0..self.osds));
        if !self.stopped.contains_key(&osd) {
            self.machine_mut().restart_osd(now, osd);
        }
    }

    /// Starts the OSDs whose time has come, or all.
    pub(crate) fn start_osds(&mut self, now: Time, all: bool) {
        let due: Vec<i32> =
            self.stopped.iter().filter(|(_, until)| all || **until <= now).map(|(osd, _)| *osd).collect();
        for osd in due {
            self.stopped.remove(&osd);
            self.machine_mut().start_osd(now, osd);
        }
    }

    /// Nothing goes wrong from here on.
    pub(crate) fn end_faults(&mut self, now: Time) {
        self.start_osds(now, true);
        if let Some(storage) = &self.storage {
            storage.disk.fail_after(u64::MAX, 0);
        }
    }
}

/// The addresses of a daemon.
fn addrs(port: u16) -> AddrVec {
    AddrVec(vec![EntityAddr::msgr2(SocketAddr::new(SERVER, port), 0)])
}
