//! The cluster, the users of its images, and what happens to them.

use super::history::{Moment, ZEROS};
use super::model::{BLOCK, FIRST_BLOCKS, ImageModel, MAX_BLOCKS};
use super::server::{SERVER, SimCluster};
use super::tasks::Tasks;
use super::user::{Job, JobAnswer, POOL, User, address, options};
use onego::ceph::{Error, ProtocolError};
use onego::rados::Pool;
use onego::rbd::ImageError;
use onego_testkit::{Faults, Node, Sim};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// Users at a time, and reads and writes in flight of each.
const USERS: usize = 3;
const DEPTH: usize = 6;

/// Requests of a world.
const REQUESTS: u64 = 400;

/// After that much virtual time without faults, a request that has not ended never will.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// What a run comes to.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    pub(crate) trace: u64,
    pub(crate) acknowledged: u64,
    pub(crate) hand_overs: u64,
    /// Clients that have died.
    pub(crate) deaths: u64,
    /// Clients that were told that they are shut out.
    pub(crate) shut_out: u64,
    pub(crate) crashes: u64,
    pub(crate) outages: u64,
    pub(crate) snapshots: u64,
    pub(crate) snapshot_reads: u64,
    pub(crate) removals: u64,
    pub(crate) rollbacks: u64,
    pub(crate) clones: u64,
    /// Clones of clones.
    pub(crate) grandchildren: u64,
    pub(crate) flattened: u64,
    pub(crate) resizes: u64,
    /// Resizes through an image that is read and written meanwhile.
    pub(crate) open_resizes: u64,
    /// Object maps that are marked as lost in the end, of how many.
    pub(crate) lost_maps: u64,
    pub(crate) maps: u64,
    /// Object maps that were compared with what OSDs keep of each object.
    pub(crate) checked_maps: u64,
    virtual_time: Duration,
}

/// What an error says about what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has no effect, and never will have.
    Refused,
    /// It may have had an effect, or a part of it.
    Doubtful,
    /// The cluster takes nothing of the client any more.
    ShutOut,
}

pub(crate) struct SharedWorld {
    pub(super) seed: u64,
    pub(super) sim: Sim,
    pub(super) random: SmallRng,
    pub(super) server: SimCluster,
    /// Makes the first image, and looks at everything in the end.
    admin: User,
    pub(super) pool: Option<Pool>,
    pub(super) images: Vec<ImageModel>,
    pub(super) users: Vec<User>,
    /// Users that were there so far.
    numbers: u32,
    dead: BTreeSet<u32>,
    pub(super) moment: Moment,
    pub(super) names: u64,
    requests: u64,
    next_event: Time,
    next_birth: Time,
    pub(super) summary: Summary,
}

impl SharedWorld {
    pub(crate) fn new(seed: u64, is_kept: bool) -> Self {
        let sim = Sim::new(seed, Faults::none());
        let mut random = SmallRng::seed_from_u64(seed ^ 0x0001_3a6e);
        let server = SimCluster::start(&sim, seed, is_kept, &mut random);
        let admin = User::new(&sim, seed, 0, 0);
        let now = sim.now();
        let mut world = Self {
            seed,
            sim,
            random,
            server,
            admin,
            pool: None,
            images: Vec::new(),
            users: Vec::new(),
            numbers: 0,
            dead: BTreeSet::new(),
            moment: 0,
            names: 0,
            requests: 0,
            next_event: now + Duration::from_secs(1),
            next_birth: now,
            summary: Summary::default(),
        };
        let cluster = world.admin.cluster.clone();
        world.pool = Some(world.ask(async move { cluster.pool(POOL).await }));
        world.ask_pool(|pool| async move { onego::rbd::create(&pool, "disk", &options(FIRST_BLOCKS)).await });
        let size = FIRST_BLOCKS as u64 * BLOCK;
        world.images.push(ImageModel::new("disk".to_owned(), size, &[ZEROS; MAX_BLOCKS], 0, 0));
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
        let now = self.sim.now();
        self.sim.set_faults(Faults::none());
        self.sim.heal_all();
        self.server.end_faults(now);
        self.wait_for_all();
        self.check_all();
        self.summary.trace = self.sim.trace();
        self.summary.virtual_time = self.sim.now().since(start);
        (self.summary.crashes, self.summary.outages) = (self.server.crashes, self.server.outages);
        self.summary
    }

    /// What comes of a future of the admin's.
    pub(super) fn ask<T: 'static>(&mut self, future: impl Future<Output = Result<T, Error>> + 'static) -> T {
        let deadline = self.sim.now() + PATIENCE;
        let mut asked = Tasks::default();
        asked.start((), future);
        loop {
            if let Some(((), result)) = asked.run() {
                return result.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
            }
            self.step();
            assert!(self.sim.now() < deadline, "seed {}: the admin waits for ever", self.seed);
        }
    }

    /// The same of one that needs the pool.
    pub(super) fn ask_pool<T: 'static, F>(&mut self, body: impl FnOnce(Pool) -> F) -> T
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let pool = self.pool.clone().expect("the pool is known");
        self.ask(body(pool))
    }

    pub(super) fn step(&mut self) {
        let mut nodes = self.server.nodes();
        nodes.push(&mut self.admin.pump);
        nodes.extend(self.users.iter_mut().map(|user| &mut user.pump as &mut dyn Node));
        self.sim.step(&mut nodes);
        self.server.keep(&self.sim, &mut self.random);
        self.see_owners();
        while let Some((_, result)) = self.admin.tasks.run() {
            assert!(result.is_ok(), "seed {}: {result:?}", self.seed);
        }
        for index in (0..self.users.len()).rev() {
            self.take_results(index);
        }
    }

    /// Whoever is dead had its last word before another user becomes the owner.
    fn see_owners(&mut self) {
        for user in &mut self.users {
            let is_owner = user.is_owner();
            if is_owner && !user.was_owner {
                self.moment += 1;
                self.summary.hand_overs += 1;
                self.images[user.image].owner = Some(user.number);
                for history in self.images[user.image].histories() {
                    history.bury(|client| self.dead.contains(&client), self.moment);
                }
            }
            user.was_owner = is_owner;
        }
    }

    fn take_results(&mut self, index: usize) {
        let mut is_over = false;
        while let Some(((job, begun), result)) = self.users[index].tasks.run() {
            self.moment += 1;
            let fate = result.as_ref().err().map(|error| self.fate(&job, self.users[index].image, error));
            is_over |= fate == Some(Fate::ShutOut) || job == Job::Close;
            self.summary.shut_out += u64::from(fate == Some(Fate::ShutOut));
            match (result, fate) {
                (Ok(answer), _) => self.succeeded(index, &job, begun, answer),
                (Err(_), Some(fate)) => self.failed(index, &job, begun, fate),
                (Err(_), None) => {}
            }
            if fate == Some(Fate::ShutOut) {
                break;
            }
        }
        if is_over {
            self.end(index);
        }
    }

    /// What an error says. It panics at those that there must not be.
    fn fate(&self, job: &Job, image: usize, error: &Error) -> Fate {
        let image = &self.images[image];
        let is_removed = |index: usize| image.snapshots[index].removal.is_some();
        match (error, job) {
            (Error::Image(ImageError::Blocklisted), _) => Fate::ShutOut,
            (Error::Refused { errno, .. }, _) if errno.0 == 108 => Fate::ShutOut,
            (Error::Protocol(ProtocolError::Refused { errno: -108 }), _) => Fate::ShutOut,
            (Error::Protocol(ProtocolError::WatchLost { errno: -108 }), _) => Fate::ShutOut,
            (Error::Image(ImageError::LockRefused { .. }), _) => Fate::Refused,
            // A dead owner watches on for as long as OSDs stop and start: its time begins anew with each of them.
            (Error::Image(ImageError::LockUnanswered { .. }), _) if self.is_anybody_silent() => Fate::Refused,
            // The owner does nothing for others, or does not know them.
            (Error::Refused { errno, .. }, job) if errno.0 == 95 && job.is_maintenance() => Fate::Refused,
            (Error::Busy { .. }, job) if job.is_maintenance() => Fate::Doubtful,
            // Another user may have owned the lock since.
            (Error::Image(ImageError::LockLost), Job::Resize(_) | Job::ResizeOpen(_)) => Fate::Doubtful,
            (Error::OutOfBounds { .. }, Job::Read(blocks) | Job::Change(blocks, _))
                if image.size.least() < blocks.end as u64 * BLOCK =>
            {
                Fate::Refused
            }
            (
                Error::NotFound { .. },
                Job::ReadSnapshot(index)
                | Job::RollBack(index)
                | Job::RemoveSnapshot(index)
                | Job::Clone(index, _),
            ) if is_removed(*index) => Fate::Refused,
            // Somebody else, who may be dead, has flattened it.
            (Error::Invalid(_), Job::Flatten) => Fate::Refused,
            _ => panic!("seed {}: {job:?} of {} ends as {error:?}", self.seed, image.name),
        }
    }

    /// Is there a user who is dead, or cut off?
    fn is_anybody_silent(&self) -> bool {
        !self.dead.is_empty() || self.users.iter().any(|user| user.cut_until.is_some())
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
            let image = self.random.random_range(0..self.images.len());
            self.open_image(image);
        }
    }

    /// A new user opens an image.
    pub(super) fn open_image(&mut self, image: usize) {
        self.numbers += 1;
        self.users.push(User::new(&self.sim, self.seed, self.numbers, image));
        self.begin(self.users.len() - 1, Job::Open);
    }

    /// Has a user do something.
    pub(super) fn begin(&mut self, index: usize, job: Job) {
        self.moment += 1;
        let user = &mut self.users[index];
        let image = &mut self.images[user.image];
        if let Job::Change(blocks, stamp) = &job {
            for history in &mut image.blocks[blocks.clone()] {
                history.begin(user.number, *stamp, self.moment);
            }
        }
        let snapshot = super::maintenance::noted(image, &job, user.number, self.moment);
        user.start(job, self.moment, &image.name, &snapshot);
    }

    fn make_requests(&mut self) {
        let now = self.sim.now();
        for index in 0..self.users.len() {
            let user = &self.users[index];
            if user.open.is_none() || user.next_request > now {
                continue;
            }
            if user.may_maintain() && self.random.random_range(0..5) == 0 {
                self.maintain(index);
            } else if user.tasks.len() < DEPTH {
                let job = self.random_request();
                self.begin(index, job);
            }
            self.requests += 1;
            let is_resizing = self.users[index].is_resizing();
            let pause = if is_resizing { 60 } else { 400 };
            self.users[index].next_request = now + Duration::from_millis(self.random.random_range(0..pause));
        }
    }

    fn random_request(&mut self) -> Job {
        let first = self.random.random_range(0..FIRST_BLOCKS);
        let count = self.random.random_range(1..=12).min(MAX_BLOCKS - first);
        let blocks = first..first + count;
        match self.random.random_range(0..10) {
            0..6 => Job::Change(blocks, (self.moment + 1) << 8 | 1),
            6 => Job::Change(blocks, ZEROS),
            _ => Job::Read(blocks),
        }
    }

    /// Lets something happen now and then.
    fn happen(&mut self) {
        let now = self.sim.now();
        self.server.start_osds(now, false);
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
        match self.random.random_range(0..18) {
            0 | 1 => {
                self.summary.deaths += 1;
                self.end(index);
            }
            2 if self.users.iter().all(|user| user.cut_until.is_none()) => {
                let time = Duration::from_secs(self.random.random_range(1..90));
                self.users[index].cut_until = Some(now + time);
                self.sim.cut(SERVER, at);
            }
            3 => self.server.restart_osd(now, &mut self.random),
            4 => {
                self.server.machine_mut().touch_map(now);
            }
            5 | 6 => self.server.stop_osd(now, &mut self.random),
            7 => self.shut_out(index),
            8 | 9 => self.server.lose_power(&self.sim, &mut self.random),
            10 if self.users[index].open.is_some() && self.users[index].tasks.len() == 0 => {
                self.begin(index, Job::Close);
            }
            _ => self.sim.reset(at),
        }
    }

    /// Somebody has the cluster take nothing of a client any more.
    fn shut_out(&mut self, index: usize) {
        let (address, nonce) = (address(self.users[index].number), self.users[index].number + 1);
        let add = r#"{"prefix": "osd blocklist", "blocklistop": "add""#;
        let command = format!(r#"{add}, "addr": "{address}:0/{nonce}"}}"#);
        let cluster = self.admin.cluster.clone();
        self.admin.tasks.start((Job::Close, 0), async move {
            cluster.command(&command, onego::List::new()).await?;
            Ok(JobAnswer::Done)
        });
    }

    pub(super) fn wait_for_all(&mut self) {
        let deadline = self.sim.now() + PATIENCE;
        while self.users.iter().any(|user| user.tasks.len() > 0) {
            self.step();
            if self.sim.now() >= deadline {
                let waiting = self.users.iter().filter(|user| user.tasks.len() > 0);
                let states: Vec<_> = waiting
                    .map(|user| (user.number, user.cluster.waiting(), user.tasks.jobs().collect::<Vec<_>>()))
                    .collect();
                panic!("seed {}: some requests never end: {states:#?}", self.seed);
            }
        }
    }

    /// Has an image of a user's a whole answer for those blocks?
    pub(super) fn check(&self, image: usize, blocks: Range<usize>, bytes: &[u8], begun: Moment) {
        let length = blocks.len() as u64 * BLOCK;
        assert_eq!(bytes.len() as u64, length, "seed {}", self.seed);
        if let Err(wrong) = self.images[image].check(blocks, bytes, begun, self.moment) {
            panic!("seed {}: {wrong}", self.seed);
        }
    }
}
