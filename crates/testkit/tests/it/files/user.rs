//! A client, its operations, and the model of their outcomes.

use crate::files::store::Store;
use onego_buf::{List, Pool, SegmentMut};
use onego_engine::Pump;
use onego_nfs::client::{Call, Config, Error, FileClient, Limits, Outcome, Rdma, Sink, Way};
use onego_nfs::rpc::{AuthSys, Credential, Procedure, rdma};
use onego_nfs::v3::{
    self, CreateArgs, CreateHow, FileType, Handle, LinkArgs, MkdirArgs, Place, ReadArgs, RenameArgs,
    SetAttributes, Stability, Status,
};
use onego_rdma::iwarp;
use onego_testkit::{Sim, SimEngine};
use onego_wire::{LocalPort, Time};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Files of each client that it writes to.
const FILES: usize = 3;
/// Blocks of each, and bytes of a block.
const BLOCKS: usize = 24;
const BLOCK: usize = 3000;
/// Bytes that it reads at a time: more than fit in a message, whatever the way.
const LOOK: usize = 8 << 10;
/// Names that it makes and removes files under.
const NAMES: u8 = 4;
/// Requests with data in flight: of some few, or more than a server answers before it sends something.
const DEPTHS: [usize; 2] = [8, 48];

/// A file that is written to.
struct File {
    handle: Handle,
    /// Its bytes after all writes.
    content: Vec<u8>,
    /// Blocks that are being written.
    busy: [bool; BLOCKS],
    /// Writes that were made.
    writes: u64,
}

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Write,
    Sync,
    Read,
    Create,
    Mkdir,
    Link,
    Remove,
    Rmdir,
    Rename,
}

impl Operation {
    /// Those on bytes.
    pub(crate) const DATA: [Self; 3] = [Self::Write, Self::Sync, Self::Read];
    /// Those on names, which must not be carried out twice.
    pub(crate) const NAMES: [Self; 6] =
        [Self::Create, Self::Mkdir, Self::Link, Self::Remove, Self::Rmdir, Self::Rename];
}

/// A request in flight.
enum Pending {
    Write {
        file: usize,
        block: usize,
    },
    /// With the number of writes that there were.
    Sync {
        file: usize,
        writes: u64,
    },
    /// A change of names, which must not be carried out twice, and its outcome.
    Once {
        operation: Operation,
        what: String,
        expected: Option<Status>,
    },
    /// A read that has little time, and a buffer, or memory of the client's.
    Look {
        has_buffer: bool,
    },
}

/// A client.
pub(crate) struct User {
    pub(crate) pump: Pump<SimEngine, FileClient<u64>>,
    random: SmallRng,
    files: Vec<File>,
    dir: Handle,
    /// The names in the directory: the number of the file, and whether it is a directory.
    names: BTreeMap<u8, (u64, bool)>,
    made_files: u64,
    waiting: BTreeMap<u64, Pending>,
    data_in_flight: usize,
    /// The most of them.
    depth: usize,
    /// Is a change of names in flight?
    once: bool,
    pub(crate) made: u64,
    /// Reads that were not answered in time.
    pub(crate) given_up: u64,
    /// Operations that have succeeded.
    pub(crate) succeeded: BTreeMap<Operation, u64>,
}

pub(crate) fn client_addr(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 10 + n))
}

/// The configuration of a client that the server lets do everything.
fn config(n: u8) -> Config {
    let credential = Credential::Sys(AuthSys { machine: b"sim".to_vec(), ..AuthSys::default() });
    Config::new(credential, u32::from(n) << 24, Pool::new(1 << 20))
}

/// Numbers for keys; here anybody may guess them.
pub(crate) fn entropy() -> iwarp::Entropy {
    let mut state = 1_u64;
    Box::new(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    })
}

/// The way over RDMA, with messages of at most `inline` bytes.
pub(crate) fn over_rdma(inline: u32) -> Way {
    let pool = Pool::new(1 << 20);
    Way::Rdma(Rdma {
        transport: Arc::new(iwarp::Config { foresee_writes: true, ..iwarp::Config::new(pool.clone()) }),
        rpc: rdma::Config { inline, ..rdma::Config::new(pool) },
        entropy,
    })
}

impl User {
    pub(crate) fn new(sim: &Sim, n: u8, seed: u64, fs: &impl Store, server: SocketAddr, way: &Way) -> Self {
        let mut random = SmallRng::seed_from_u64(seed ^ (u64::from(n) << 40));
        let mut client = FileClient::new(config(n));
        client.connect(server, LocalPort::Reserved, way, random.random_range(1..=3));
        client.set_limits(Limits { read: 8 << 10, write: random.random_range(500..5000) });
        let depth = DEPTHS[random.random_range(0..DEPTHS.len())];
        let pump = Pump::new(sim.engine(client_addr(n)), client);
        let (dir, handles) = fs.with(sim.now(), |fs, cx| {
            let root = fs.mount(cx, b"").expect("the root is there");
            let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
            let place = Place { dir: root, name: format!("client-{n}").as_str().into() };
            let made = fs.mkdir(cx, MkdirArgs { place, attributes }).expect("there is room");
            let dir = made.file.expect("handles are told");
            let handles: Vec<Handle> = (0..FILES)
                .map(|file| {
                    let place = Place { dir: root, name: format!("data-{n}-{file}").as_str().into() };
                    let how = CreateHow::Guarded(attributes);
                    let made = fs.create(cx, CreateArgs { place, how }).expect("there is room");
                    made.file.expect("handles are told")
                })
                .collect();
            (dir, handles)
        });
        let file = |handle| File { handle, content: Vec::new(), busy: [false; BLOCKS], writes: 0 };
        Self {
            pump,
            random,
            files: handles.into_iter().map(file).collect(),
            dir,
            names: BTreeMap::new(),
            made_files: 0,
            waiting: BTreeMap::new(),
            data_in_flight: 0,
            depth,
            once: false,
            made: 0,
            given_up: 0,
            succeeded: BTreeMap::new(),
        }
    }

    /// Makes requests, up to the number that may be in flight.
    pub(crate) fn make_requests(&mut self, now: Time, fs: &impl Store, crashes: bool, most: u64) {
        while self.made < most && self.data_in_flight < self.depth {
            match self.random.random_range(0..10) {
                0 => self.sync(now),
                1..6 => self.write(now),
                6 => self.look(now),
                // A server that crashes forgets what it has done, and does it again.
                _ if crashes || self.once => break,
                _ => self.change_names(now, fs),
            }
        }
    }

    fn ask(&mut self, pending: Pending) -> u64 {
        self.made += 1;
        self.waiting.insert(self.made, pending);
        self.made
    }

    fn write(&mut self, now: Time) {
        let (file, block) = (self.random.random_range(0..FILES), self.random.random_range(0..BLOCKS));
        if self.files[file].busy[block] {
            return;
        }
        let (from, len) = (self.random.random_range(0..BLOCK), self.random.random_range(1..=BLOCK));
        let bytes = vec![self.random.random::<u8>(); len.min(BLOCK - from)];
        let at = block * BLOCK + from;
        let model = &mut self.files[file];
        model.busy[block] = true;
        model.writes += 1;
        if model.content.len() < at + bytes.len() {
            model.content.resize(at + bytes.len(), 0);
        }
        model.content[at..at + bytes.len()].copy_from_slice(&bytes);
        let handle = model.handle;
        let stable =
            if self.random.random_range(0..8) == 0 { Stability::FileSync } else { Stability::Unstable };
        let id = self.ask(Pending::Write { file, block });
        self.data_in_flight += 1;
        self.pump.machine_mut().write(now, handle, at as u64, List::from(bytes), stable, id);
    }

    /// Reads with little time.
    fn look(&mut self, now: Time) {
        let file = self.files[self.random.random_range(0..FILES)].handle;
        let args = ReadArgs { file, offset: 0, count: LOOK as u32 };
        let patience = Duration::from_millis(self.random.random_range(0..300));
        let has_buffer = self.random.random();
        let sink = if has_buffer { Sink::Buffer(SegmentMut::zeroed(LOOK)) } else { Sink::Fresh(LOOK) };
        let id = self.ask(Pending::Look { has_buffer });
        self.data_in_flight += 1;
        let call = Call { sink, deadline: Some(now + patience), ..Call::new::<v3::Read>(&args) };
        self.pump.machine_mut().call(now, call, id);
    }

    fn sync(&mut self, now: Time) {
        let file = self.random.random_range(0..FILES);
        self.sync_file(now, file);
    }

    fn sync_file(&mut self, now: Time, file: usize) {
        let (handle, writes) = (self.files[file].handle, self.files[file].writes);
        let id = self.ask(Pending::Sync { file, writes });
        self.data_in_flight += 1;
        self.pump.machine_mut().sync(now, handle, id);
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self, now: Time) {
        (0..FILES).for_each(|file| self.sync_file(now, file));
    }

    fn place(&self, name: u8) -> Place {
        Place { dir: self.dir, name: name.to_string().as_str().into() }
    }

    /// Changes names. The outcome says whether it was carried out twice.
    fn change_names(&mut self, now: Time, fs: &impl Store) {
        let (a, b) = (self.random.random_range(0..NAMES), self.random.random_range(0..NAMES));
        let (at_a, at_b) = (self.names.get(&a).copied(), self.names.get(&b).copied());
        let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
        match self.random.random_range(0..6) {
            0 => {
                let expected = self.make(a, false);
                let args = CreateArgs { place: self.place(a), how: CreateHow::Guarded(attributes) };
                self.once::<v3::Create>(now, &args, (Operation::Create, expected), format!("create {a}"));
            }
            1 => {
                let expected = self.make(a, true);
                let args = MkdirArgs { place: self.place(a), attributes };
                self.once::<v3::Mkdir>(now, &args, (Operation::Mkdir, expected), format!("mkdir {a}"));
            }
            2 => {
                let expected = match at_a {
                    None => Some(Status::Noent),
                    Some((_, true)) => Some(Status::Isdir),
                    Some((_, false)) => self.names.remove(&a).and(None),
                };
                self.once::<v3::Remove>(
                    now,
                    &self.place(a),
                    (Operation::Remove, expected),
                    format!("remove {a}"),
                );
            }
            3 => {
                let expected = match at_a {
                    None => Some(Status::Noent),
                    Some((_, false)) => Some(Status::Notdir),
                    Some((_, true)) => self.names.remove(&a).and(None),
                };
                self.once::<v3::Rmdir>(
                    now,
                    &self.place(a),
                    (Operation::Rmdir, expected),
                    format!("rmdir {a}"),
                );
            }
            4 => self.link(now, fs, a, b),
            _ => {
                let expected = match (at_a, at_b) {
                    (None, _) => Some(Status::Noent),
                    (Some((_, true)), Some((_, false))) => Some(Status::Notdir),
                    (Some((_, false)), Some((_, true))) => Some(Status::Isdir),
                    (Some((one, _)), Some((other, _))) if one == other => None,
                    (Some(moved), _) => {
                        self.names.remove(&a);
                        self.names.insert(b, moved).and(None)
                    }
                };
                let args = RenameArgs { from: self.place(a), to: self.place(b) };
                self.once::<v3::Rename>(
                    now,
                    &args,
                    (Operation::Rename, expected),
                    format!("rename {a} to {b}"),
                );
            }
        }
    }

    fn make(&mut self, name: u8, is_dir: bool) -> Option<Status> {
        if self.names.contains_key(&name) {
            return Some(Status::Exist);
        }
        self.made_files += 1;
        self.names.insert(name, (self.made_files, is_dir));
        None
    }

    /// Gives a file another name. There is no handle of a name without a file, and none is sent.
    fn link(&mut self, now: Time, fs: &impl Store, a: u8, b: u8) {
        let Some((file, is_dir)) = self.names.get(&a).copied() else { return };
        let found = fs.with(now, |fs, cx| fs.lookup(cx, self.place(a))).expect("the model has the name");
        let expected = match self.names.get(&b) {
            _ if is_dir => Some(Status::Perm),
            Some(_) => Some(Status::Exist),
            None => self.names.insert(b, (file, is_dir)).and(None),
        };
        let args = LinkArgs { file: found.file, link: self.place(b) };
        self.once::<v3::Link>(now, &args, (Operation::Link, expected), format!("link {a} as {b}"));
    }

    fn once<P: Procedure>(
        &mut self,
        now: Time,
        args: &P::Args,
        (operation, expected): (Operation, Option<Status>),
        what: String,
    ) {
        self.once = true;
        let id = self.ask(Pending::Once { operation, what, expected });
        self.pump.machine_mut().call(now, Call::new::<P>(args), id);
    }

    fn count(&mut self, operation: Operation) {
        *self.succeeded.entry(operation).or_default() += 1;
    }

    /// Takes completions, and checks them.
    pub(crate) fn take_replies(&mut self, now: Time, fs: &impl Store) {
        // `machine_mut` wakes the pump.
        while self.pump.machine().has_completion()
            && let Some(done) = self.pump.machine_mut().completion()
        {
            let pending = self.waiting.remove(&done.ticket).expect("a request completes once");
            if let Pending::Look { has_buffer } = pending {
                self.data_in_flight -= 1;
                let len = done.buffer.map(|buffer| buffer.len());
                assert!(!has_buffer || len == Some(LOOK), "the buffer comes back");
                match done.result {
                    Ok(_) => self.count(Operation::Read),
                    Err(Error::NoReply { .. }) => self.given_up += 1,
                    Err(error) => panic!("request {}: {error}", done.ticket),
                }
                continue;
            }
            let outcome = done.result.unwrap_or_else(|error| panic!("request {}: {error}", done.ticket));
            match (pending, outcome) {
                (Pending::Write { file, block }, Outcome::Written) => {
                    self.count(Operation::Write);
                    self.files[file].busy[block] = false;
                    self.data_in_flight -= 1;
                }
                (Pending::Sync { file, writes }, Outcome::Synced) => {
                    self.count(Operation::Sync);
                    self.data_in_flight -= 1;
                    let model = &self.files[file];
                    // Otherwise later writes may be there, too, or not.
                    if model.writes == writes {
                        assert!(model.content == fs.content(now, model.handle), "file {file} is not durable");
                    }
                }
                (Pending::Once { operation, what, expected }, Outcome::Reply(reply)) => {
                    self.once = false;
                    let status = reply.status().expect("a reply has a status");
                    assert_eq!(status, expected, "{what}");
                    if status.is_none() {
                        self.count(operation);
                    }
                }
                _ => panic!("a request has the outcome of another"),
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Checks the names against the model.
    pub(crate) fn check_names(&self, now: Time, fs: &impl Store) {
        for name in 0..NAMES {
            let found = fs.with(now, |fs, cx| fs.lookup(cx, self.place(name)));
            let is_dir =
                found.ok().and_then(|found| Some(found.attributes?.file_type == FileType::Directory));
            assert_eq!(is_dir, self.names.get(&name).map(|(_, is_dir)| *is_dir), "name {name}");
        }
    }

    /// Checks the durable bytes of all files against the model.
    pub(crate) fn check_content(&self, now: Time, fs: &impl Store) {
        for (number, file) in self.files.iter().enumerate() {
            assert!(file.content == fs.content(now, file.handle), "file {number} has lost something");
        }
    }
}
