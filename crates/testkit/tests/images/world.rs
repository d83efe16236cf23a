//! The cluster, the users of its image, and what happens to them.

use super::history::{History, Moment, ZEROS};
use super::user::{FEATURES, ID, ImageUser, address, config, layout, prefix};
use onego_buf::List;
use onego_ceph::client::{Client, Config, OpReply, Outcome, Request, errno};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::{Create, GetFlags, ObjectMapLoad, ObjectMapResize, image_flag, state};
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::{Op, flag};
use onego_ceph::rbd::{DataNames, header_object};
use onego_ceph::types::{NOSNAP, Uuid};
use onego_cluster::{ClusterMachine, NewPool, OsdSettings, Settings};
use onego_engine::Pump;
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_rbd::{Error, Io};
use onego_testkit::{Faults, Node, Sim, SimEngine};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const MAKER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Bytes of a block, which is written whole, and blocks of the image, in eight objects.
const BLOCK: u64 = 8 << 10;
const BLOCKS: usize = 64;
const SIZE: u64 = BLOCK * BLOCKS as u64;

/// Users at a time, and requests in flight of each.
const USERS: usize = 3;
const DEPTH: usize = 6;

/// Requests of a world.
const REQUESTS: u64 = 300;

/// After that much virtual time without faults, a request that has not ended never will.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a run comes to.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    trace: u64,
    acknowledged: u64,
    pub(crate) hand_overs: u64,
    /// Clients that have died.
    pub(crate) deaths: u64,
    /// Clients that were told that they are shut out.
    pub(crate) shut_out: u64,
    virtual_time: Duration,
}

/// A user, as long as it lives.
struct Life {
    number: u32,
    pump: Pump<SimEngine, ImageUser>,
    waiting: BTreeMap<u64, WaitingIo>,
    was_owner: bool,
    next_request: Time,
    cut_until: Option<Time>,
}

/// A request that has not ended.
struct WaitingIo {
    begun: Moment,
    kind: IoKind,
    blocks: std::ops::Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoKind {
    Open,
    Read,
    /// The blocks show this then.
    Change(u64),
}

pub(crate) struct SharedWorld {
    seed: u64,
    sim: Sim,
    random: SmallRng,
    server: Pump<SimEngine, ClusterMachine>,
    maker: Pump<SimEngine, Client<u64>>,
    config: Config,
    pool: i64,
    users: Vec<Life>,
    /// Users that were there so far.
    numbers: u32,
    dead: BTreeSet<u32>,
    histories: Vec<History>,
    moment: Moment,
    tokens: u64,
    requests: u64,
    next_event: Time,
    next_birth: Time,
    summary: Summary,
}

impl SharedWorld {
    pub(crate) fn new(seed: u64) -> Self {
        let mut sim = Sim::new(seed, Faults::none());
        let mon = addrs(3300);
        let mut server = Pump::new(sim.engine(SERVER), ClusterMachine::new(settings(mon.clone())));
        sim.run_for(&mut [&mut server], Duration::from_millis(10));
        let map = server.machine().osdmap().expect("the cluster is up");
        let pool = map.pool_id("rbd").expect("the cluster has a pool");
        let config = config(mon, seed);
        let maker = Pump::new(sim.engine(MAKER), Client::new(sim.now(), &config));
        let now = sim.now();
        let mut world = Self {
            seed,
            sim,
            random: SmallRng::seed_from_u64(seed ^ 0x0001_3a6e),
            server,
            maker,
            config,
            pool,
            users: Vec::new(),
            numbers: 0,
            dead: BTreeSet::new(),
            histories: (0..BLOCKS).map(|_| History::new()).collect(),
            moment: 0,
            tokens: 0,
            requests: 0,
            next_event: now + Duration::from_secs(1),
            next_birth: now,
            summary: Summary::default(),
        };
        world.make_image();
        world.sim.set_faults(Faults::random(seed));
        world
    }

    pub(crate) fn run(mut self) -> Summary {
        let start = self.sim.now();
        while self.requests < REQUESTS {
            self.be_born();
            self.make_requests();
            self.step();
            self.happen();
        }
        self.sim.set_faults(Faults::none());
        self.sim.heal_all();
        self.wait_for_all();
        self.read_all();
        self.check_map();
        self.summary.trace = self.sim.trace();
        self.summary.virtual_time = self.sim.now().since(start);
        self.summary
    }

    /// The header of the image, and its object map.
    fn make_image(&mut self) {
        let create = Create {
            size: SIZE,
            order: layout().order(),
            features: FEATURES.0,
            object_prefix: prefix(),
            data_pool: -1,
        };
        let header = Request::one(self.pool, header_object(ID), Op::Create { exclusive: true });
        self.ask(header.and(create.call()).with_flags(flag::WRITE)).ok().expect("the header is made");
        let resize = ObjectMapResize { objects: layout().objects(SIZE), state: state::NONEXISTENT };
        let map = Request::one(self.pool, map_object(), resize.call());
        self.ask(map.with_flags(flag::WRITE)).ok().expect("the map is made");
    }

    /// What the cluster answers to the maker of the image.
    fn ask(&mut self, request: Request) -> OpReply {
        let now = self.sim.now();
        assert!(self.maker.machine_mut().submit(now, request, 0).is_ok(), "there is room for one request");
        loop {
            self.step();
            if !self.maker.machine().has_news() {
                continue; // to touch the machine would be to give it a turn
            }
            while self.maker.machine_mut().poll_event().is_some() {}
            if let Some(completion) = self.maker.machine_mut().poll_completion() {
                match completion.outcome {
                    Ok(Outcome::Reply(reply)) => return reply,
                    other => panic!("seed {}: {other:?}", self.seed),
                }
            }
        }
    }

    fn step(&mut self) {
        let mut nodes: Vec<&mut dyn Node> = vec![&mut self.server, &mut self.maker];
        nodes.extend(self.users.iter_mut().map(|user| &mut user.pump as &mut dyn Node));
        self.sim.step(&mut nodes);
        self.see_owners();
        for index in (0..self.users.len()).rev() {
            self.take_results(index);
        }
    }

    /// Whoever is dead had its last word before another user becomes the owner.
    fn see_owners(&mut self) {
        for user in &mut self.users {
            let is_owner = user.pump.machine().is_owner();
            if is_owner && !user.was_owner {
                self.moment += 1;
                self.summary.hand_overs += 1;
                for history in &mut self.histories {
                    history.bury(|client| self.dead.contains(&client), self.moment);
                }
            }
            user.was_owner = is_owner;
        }
    }

    fn take_results(&mut self, index: usize) {
        if !self.users[index].pump.machine().has_finished() {
            return; // to touch the machine would be to give it a turn
        }
        let mut is_shut_out = false;
        for (token, result) in self.users[index].pump.machine_mut().take_finished() {
            let Some(io) = self.users[index].waiting.remove(&token) else {
                panic!("seed {}: request {token} ends twice", self.seed);
            };
            self.moment += 1;
            match (io.kind, result) {
                (IoKind::Open, Ok(_)) => {}
                (IoKind::Change(stamp), Ok(_)) => {
                    self.summary.acknowledged += 1;
                    for block in io.blocks {
                        self.histories[block].acknowledge(stamp, io.begun, self.moment);
                    }
                }
                (IoKind::Read, Ok(onego_rbd::Outcome::Data(data))) => self.check(&io, &data),
                (_, Err(Error::Blocklisted)) => is_shut_out = true,
                (kind, other) => panic!("seed {}: {kind:?} ends as {other:?}", self.seed),
            }
        }
        if is_shut_out {
            self.summary.shut_out += 1;
            self.end(index);
        }
    }

    /// Holds what a read gave against the histories of its blocks.
    fn check(&self, io: &WaitingIo, data: &List) {
        let bytes = data.to_vec();
        assert_eq!(bytes.len() as u64, io.blocks.len() as u64 * BLOCK, "seed {}", self.seed);
        for (block, bytes) in io.blocks.clone().zip(bytes.chunks(BLOCK as usize)) {
            let stamp = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            assert!(bytes.chunks(8).all(|word| word == stamp.to_le_bytes()), "block {block} is torn");
            let history = &self.histories[block];
            let may = history.may_show(stamp, io.begun, self.moment);
            assert!(may, "seed {}: block {block} shows {stamp:#x}: {history:?}", self.seed);
        }
    }

    /// A user ends, with whatever is on its way.
    fn end(&mut self, index: usize) {
        let user = self.users.remove(index);
        if user.cut_until.is_some() {
            self.sim.heal(SERVER, address(user.number));
        }
        self.dead.insert(user.number);
        self.next_birth = self.sim.now() + Duration::from_millis(self.random.random_range(0..5000));
    }

    fn be_born(&mut self) {
        if self.users.len() < USERS && self.sim.now() >= self.next_birth {
            self.open_image();
        }
    }

    fn open_image(&mut self) {
        self.numbers += 1;
        let (number, token) = (self.numbers, self.next_token());
        let pump = ImageUser::open(&self.sim, &self.config, number, self.pool, SIZE, token);
        let open = WaitingIo { begun: self.moment, kind: IoKind::Open, blocks: 0..0 };
        self.users.push(Life {
            number,
            pump,
            waiting: BTreeMap::from([(token, open)]),
            was_owner: false,
            next_request: self.sim.now(),
            cut_until: None,
        });
    }

    fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    fn make_requests(&mut self) {
        let now = self.sim.now();
        for index in 0..self.users.len() {
            let user = &self.users[index];
            if user.next_request <= now && user.waiting.len() < DEPTH {
                self.make_request(index);
                self.users[index].next_request =
                    now + Duration::from_millis(self.random.random_range(0..400));
            }
        }
    }

    fn make_request(&mut self, index: usize) {
        let first = self.random.random_range(0..BLOCKS);
        let count = self.random.random_range(1..=12).min(BLOCKS - first);
        let (offset, length) = (first as u64 * BLOCK, count as u64 * BLOCK);
        let token = self.next_token();
        let stamp = token << 8 | 1;
        let (io, kind) = match self.random.random_range(0..10) {
            0..6 => {
                let data = stamp.to_le_bytes().repeat((length / 8) as usize);
                (Io::Write { offset, data: data.into() }, IoKind::Change(stamp))
            }
            6 => (Io::Zero { offset, length }, IoKind::Change(ZEROS)),
            _ => (Io::Read { offset, length }, IoKind::Read),
        };
        self.requests += 1;
        self.give(index, io, WaitingIo { begun: 0, kind, blocks: first..first + count }, token);
    }

    fn give(&mut self, index: usize, io: Io, waiting: WaitingIo, token: u64) {
        self.moment += 1;
        let user = &mut self.users[index];
        if let IoKind::Change(stamp) = waiting.kind {
            for block in waiting.blocks.clone() {
                self.histories[block].begin(user.number, stamp, self.moment);
            }
        }
        user.waiting.insert(token, WaitingIo { begun: self.moment, ..waiting });
        let now = self.sim.now();
        user.pump.machine_mut().submit(now, io, token);
    }

    /// Lets something happen now and then.
    fn happen(&mut self) {
        let now = self.sim.now();
        for user in &mut self.users {
            if user.cut_until.is_some_and(|until| until <= now) {
                user.cut_until = None;
                self.sim.heal(SERVER, address(user.number));
            }
        }
        if now < self.next_event || self.users.is_empty() {
            return;
        }
        self.next_event = now + Duration::from_millis(self.random.random_range(100..4000));
        let index = self.random.random_range(0..self.users.len());
        let at = address(self.users[index].number);
        match self.random.random_range(0..12) {
            0 | 1 => {
                self.summary.deaths += 1;
                self.end(index);
            }
            2 if self.users.iter().all(|user| user.cut_until.is_none()) => {
                let time = Duration::from_secs(self.random.random_range(1..90));
                self.users[index].cut_until = Some(now + time);
                self.sim.cut(SERVER, at);
            }
            3 => self.server.machine_mut().restart_osd(now, 0),
            4 => {
                self.server.machine_mut().touch_map(now);
            }
            _ => self.sim.reset(at),
        }
    }

    fn wait_for_all(&mut self) {
        let deadline = self.sim.now() + PATIENCE;
        while self.users.iter().any(|user| !user.waiting.is_empty()) {
            self.step();
            if self.sim.now() >= deadline {
                self.give_up();
            }
        }
    }

    fn give_up(&self) -> ! {
        let waiting = self.users.iter().filter(|user| !user.waiting.is_empty());
        let states: Vec<_> = waiting.map(|user| user.pump.machine().describe(self.sim.now())).collect();
        panic!("seed {}: some requests never end: {states:#?}", self.seed);
    }

    /// A new user reads the whole image.
    fn read_all(&mut self) {
        self.open_image();
        self.wait_for_all();
        let (index, token) = (self.users.len() - 1, self.next_token());
        let read = WaitingIo { begun: 0, kind: IoKind::Read, blocks: 0..BLOCKS };
        self.give(index, Io::Read { offset: 0, length: SIZE }, read, token);
        self.wait_for_all();
    }

    /// Every object that there is must be in the map, unless the header says that the map is lost.
    fn check_map(&mut self) {
        let flags = Request::one(self.pool, header_object(ID), GetFlags { snap: NOSNAP }.call());
        let flags = self.ask(flags);
        let flags = GetFlags::reply(&flags.ops[0].output).expect("flags");
        if flags & image_flag::OBJECT_MAP_INVALID != 0 {
            return;
        }
        let map = self.ask(Request::one(self.pool, map_object(), ObjectMapLoad {}.call()));
        let map = ObjectMapLoad::reply(&map.ops[0].output).expect("a map");
        let names = DataNames::new(&prefix());
        for object in 0..layout().objects(SIZE) {
            let is_there =
                self.ask(Request::one(self.pool, names.name(object), Op::Stat)).result != errno::ENOENT;
            let is_known = map.get(object) == state::EXISTS;
            assert!(is_known || !is_there, "seed {}: object {object} is not in the map", self.seed);
        }
    }
}

fn map_object() -> ObjectName {
    ObjectName::from(format!("rbd_object_map.{ID}").as_str())
}

/// The addresses of a daemon.
fn addrs(port: u16) -> AddrVec {
    AddrVec(vec![EntityAddr::msgr2(SocketAddr::new(SERVER, port), 0)])
}

fn settings(mon: AddrVec) -> Settings {
    Settings {
        registrable: 0,
        fsid: Uuid([9; 16]),
        mon,
        mgr: AddrVec::default(),
        osds: vec![OsdSettings::new(Uuid([8; 16]), addrs(6800))],
        memory_limit: 1 << 30,
        null_writes: false,
        pools: vec![NewPool { size: Some(1), ..NewPool::for_images("rbd") }],
        cephx: None,
        compression: None,
    }
}
