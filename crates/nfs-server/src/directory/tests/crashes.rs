//! Crashes of the machine under a served directory, by the rules of POSIX alone: what a sync has covered survives, and of
//! every other change any part may.
//!
//! A recorder stands in for the system calls that sync. It notes what the synced file was like, and a crash state has the
//! noted files, with a random subset of what the directory has besides. After each reply every such state must show what
//! was acknowledged.

use super::super::sync::{SyncCalls, Syncs, Target};
use super::super::system::{self, Identity};
use super::world::{CallResult, DirectoryWorld, mode};
use super::{Directory, FileSystem as _};
use onego_buf::Pool;
use onego_nfs::v3::{
    CommitArgs, CreateArgs, CreateHow, Handle, MknodArgs, Node, SetAttributes, SetTime, Stability, Status,
    SymlinkArgs, Time, WriteArgs,
};
use onego_service::SyncExtent;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A file as a crash leaves it.
#[derive(Debug, Clone, PartialEq)]
struct Image {
    /// Mode with type, owners, device, and the times that clients may rely on.
    attributes: (u32, u32, u32, u64, [i64; 4]),
    content: Content,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Names(BTreeMap<Vec<u8>, Identity>),
    Bytes(Vec<u8>),
    Other(Vec<u8>),
}

impl Image {
    fn at(path: &Path) -> Self {
        Self::with(std::fs::symlink_metadata(path).unwrap(), path)
    }

    fn with(stat: std::fs::Metadata, path: &Path) -> Self {
        let kind = stat.file_type();
        let content = if kind.is_dir() {
            let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
            Content::Names(
                entries.map(|e| (e.file_name().as_bytes().to_vec(), identity(&e.path()))).collect(),
            )
        } else if kind.is_file() {
            let flags = OFlags::RDONLY | OFlags::NOATIME;
            let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(fd), &mut bytes).unwrap();
            Content::Bytes(bytes)
        } else {
            Content::Other(
                std::fs::read_link(path).map_or(Vec::new(), |to| to.as_os_str().as_bytes().to_vec()),
            )
        };
        let atime = if kind.is_file() { [stat.atime(), stat.atime_nsec()] } else { [0; 2] };
        let times = [stat.mtime(), stat.mtime_nsec(), atime[0], atime[1]];
        Self { attributes: (stat.mode(), stat.uid(), stat.gid(), stat.rdev(), times), content }
    }
}

fn identity(path: &Path) -> Identity {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
    system::stat(&fd).unwrap().identity
}

/// All files below a directory, by number.
fn walk(path: &Path, found: &mut HashMap<Identity, Image>) {
    let image = Image::at(path);
    if let Content::Names(names) = &image.content {
        names.keys().for_each(|name| walk(&path.join(std::ffi::OsStr::from_bytes(name)), found));
    }
    found.insert(identity(path), image);
}

#[derive(Debug, Default)]
struct DiskState {
    root: PathBuf,
    durable: HashMap<Identity, Image>,
    syncs: u32,
    drops_half: bool,
    fails_next: bool,
}

/// A disk with a cache that only syncs write back.
#[derive(Debug, Default, Clone)]
struct Disk(Arc<Mutex<DiskState>>);

impl SyncCalls for Disk {
    fn sync(&self, target: Target, fd: &OwnedFd, extent: SyncExtent) -> Result<(), Errno> {
        let mut state = self.0.lock().unwrap();
        state.syncs += 1;
        if std::mem::take(&mut state.fails_next) {
            return Err(Errno::IO);
        }
        if state.drops_half && state.syncs.is_multiple_of(2) {
            return Ok(());
        }
        match target {
            Target::FileSystem => state.note_all(),
            Target::File(file) => state.note(file, Path::new(&system::reopen_path(fd)), extent),
        }
        Ok(())
    }
}

impl DiskState {
    fn note_all(&mut self) {
        walk(&self.root.clone(), &mut self.durable);
    }

    fn note(&mut self, file: Identity, path: &Path, extent: SyncExtent) {
        // By the descriptor: the file may have lost the name under which it was opened.
        let mut image = Image::with(std::fs::metadata(path).unwrap(), path);
        if let Content::Names(names) = &image.content {
            // Nothing can sync these but the transaction that gave them their names.
            for (name, new) in names {
                if self.durable.contains_key(new) {
                    continue;
                }
                let image = Image::at(&path.join(std::ffi::OsStr::from_bytes(name)));
                if matches!(image.content, Content::Other(_)) {
                    self.durable.insert(*new, image);
                }
            }
        }
        if extent == SyncExtent::Data
            && let Some(before) = self.durable.get(&file)
        {
            image.attributes = before.attributes;
        }
        self.durable.insert(file, image);
    }

    /// Adds what a crash leaves of a file and those below it to `found`; `None` marks a name without an inode.
    fn crash(
        &self,
        at: (Identity, PathBuf),
        now: &HashMap<Identity, Image>,
        roll: &mut dyn FnMut(usize) -> usize,
        found: &mut BTreeMap<PathBuf, Option<Image>>,
    ) {
        let (file, path) = at;
        let Some(mut image) = self.durable.get(&file).cloned() else {
            found.insert(path, None);
            return;
        };
        if let Some(now) = now.get(&file) {
            if roll(2) == 1 {
                image.attributes = now.attributes;
            }
            match (&mut image.content, &now.content) {
                (Content::Names(names), Content::Names(now)) => {
                    let changed: HashSet<_> = names.keys().chain(now.keys()).cloned().collect();
                    for name in changed.into_iter().filter(|_| roll(2) == 1) {
                        match now.get(&name) {
                            Some(file) => names.insert(name, *file),
                            None => names.remove(&name),
                        };
                    }
                }
                (content, now) if roll(2) == 1 => *content = now.clone(),
                _ => {}
            }
        }
        if let Content::Names(names) = &mut image.content {
            for (name, file) in std::mem::take(names) {
                let path = path.join(std::ffi::OsStr::from_bytes(&name));
                self.crash((file, path), now, roll, found);
            }
        }
        found.insert(path, Some(image));
    }
}

/// A served directory on such a disk.
struct CrashWorld {
    world: DirectoryWorld,
    disk: Disk,
    state: u64,
    /// Files with data that no reply promises.
    unstable: HashSet<Handle>,
}

impl CrashWorld {
    fn new(seed: u64) -> Self {
        let (mut world, disk) = (DirectoryWorld::new(), Disk::default());
        let syncs = Syncs::new(Box::new(disk.clone()), [7; 8]);
        world.fs = Directory::open_with(&world.path(""), &[5; 32], syncs, Pool::new(1 << 20)).unwrap();
        let mut state = disk.0.lock().unwrap();
        state.root = world.path("").canonicalize().unwrap();
        state.note_all();
        drop(state);
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { world, disk, state, unstable: HashSet::new() }
    }

    fn roll(&mut self, below: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    /// Crash states that do not show what was acknowledged.
    fn faults(&mut self, states: usize) -> usize {
        let mut now = HashMap::new();
        let disk = self.disk.clone();
        let mut disk = disk.0.lock().unwrap();
        walk(&disk.root, &mut now);
        // Their numbers may be given again.
        disk.durable.retain(|file, _| now.contains_key(file));
        let root = identity(&disk.root);
        let show = |found: &mut BTreeMap<PathBuf, Option<Image>>, unstable: &HashSet<Vec<u8>>| {
            for (path, image) in found {
                if let (Some(image), Some(name)) = (image, path.file_name())
                    && unstable.contains(name.as_bytes())
                {
                    (image.content, image.attributes.4) = (Content::Other(Vec::new()), [0; 4]);
                }
            }
        };
        let unstable = HashSet::from_iter((!self.unstable.is_empty()).then(|| b"unstable".to_vec()));
        let whole = DiskState { durable: now.clone(), ..DiskState::default() };
        let mut expected = BTreeMap::new();
        whole.crash((root, PathBuf::new()), &now, &mut |_| 0, &mut expected);
        show(&mut expected, &unstable);
        let is_wrong = |this: &mut Self, n: usize| {
            let mut found = BTreeMap::new();
            // The first has nothing but what was synced.
            disk.crash(
                (root, PathBuf::new()),
                &now,
                &mut |below| if n == 0 { 0 } else { this.roll(below) },
                &mut found,
            );
            show(&mut found, &unstable);
            found != expected
        };
        (0..states).filter(|n| is_wrong(self, *n)).count()
    }

    /// Makes some change that is acknowledged, or is refused.
    fn change(&mut self, dirs: &mut Vec<Handle>) -> CallResult<()> {
        let names = ["a", "b", "c", "d", "e"];
        let (dir, other) = (dirs[self.roll(dirs.len())], dirs[self.roll(dirs.len())]);
        let (name, to) = (names[self.roll(5)], names[self.roll(5)]);
        let procedure = self.roll(PROCEDURES.len() + 1);
        match PROCEDURES.get(procedure) {
            Some((_, act)) => act(self, (dir, name), (other, to))?,
            None => dirs.push(self.world.mkdir_at(dir, name)?),
        }
        Ok(())
    }
}

impl DirectoryWorld {
    fn mkdir_at(&mut self, dir: Handle, name: &str) -> CallResult<Handle> {
        let args = onego_nfs::v3::MkdirArgs { place: self.place(dir, name), attributes: mode(0o755) };
        self.call(Directory::mkdir, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    }

    fn create_how(&mut self, (dir, name): (Handle, &str), how: CreateHow) -> CallResult<Handle> {
        let args = CreateArgs { place: self.place(dir, name), how };
        self.call(Directory::create, args).map(|made| made.file.unwrap()).map_err(|failed| failed.status)
    }

    fn write_how(&mut self, file: Handle, stable: Stability) -> CallResult<[u8; 8]> {
        let args = WriteArgs { file, offset: 3, stable, data: b"bytes".to_vec().into() };
        self.call(Directory::write, args).map(|written| written.verifier).map_err(|failed| failed.status)
    }

    fn commit(&mut self, file: Handle) -> CallResult<[u8; 8]> {
        let args = CommitArgs { file, offset: 0, count: 0 };
        self.call(Directory::commit, args).map(|done| done.verifier).map_err(|failed| failed.status)
    }
}

type Entry<'a> = (Handle, &'a str);
type Procedure = fn(&mut CrashWorld, Entry<'_>, Entry<'_>) -> CallResult<()>;

fn time(seconds: u32) -> SetTime {
    SetTime::To(Time { seconds, nanoseconds: 7 })
}

/// Every procedure that changes something, in the form in which it does the most.
const PROCEDURES: [(&str, Procedure); 14] = [
    ("CREATE", |this, at, _| this.world.create(at.0, at.1).map(drop)),
    ("CREATE with attributes", |this, at, _| {
        let set = SetAttributes { size: Some(9), atime: time(1), mtime: time(2), ..mode(0o4711) };
        this.world.create_how(at, CreateHow::Unchecked(set)).map(drop)
    }),
    ("CREATE, exclusive", |this, at, _| this.world.create_how(at, CreateHow::Exclusive([1; 8])).map(drop)),
    ("MKDIR", |this, at, _| this.world.mkdir_at(at.0, at.1).map(drop)),
    ("SYMLINK", |this, at, _| {
        let (place, attributes) =
            (this.world.place(at.0, at.1), SetAttributes { mtime: time(3), ..mode(0o777) });
        let args = SymlinkArgs { place, attributes, path: b"text".to_vec() };
        this.world.call(Directory::symlink, args).map(drop).map_err(|failed| failed.status)
    }),
    ("MKNOD", |this, at, _| {
        let args = MknodArgs { place: this.world.place(at.0, at.1), what: Node::Fifo(mode(0o600)) };
        this.world.call(Directory::mknod, args).map(drop).map_err(|failed| failed.status)
    }),
    ("REMOVE", |this, at, _| {
        let place = this.world.place(at.0, at.1);
        this.world.call(Directory::remove, place).map(drop).map_err(|failed| failed.status)
    }),
    ("RMDIR", |this, at, _| {
        let place = this.world.place(at.0, at.1);
        this.world.call(Directory::rmdir, place).map(drop).map_err(|failed| failed.status)
    }),
    ("RENAME", |this, at, to| this.world.rename(at, to)),
    ("LINK", |this, at, to| {
        let file = this.world.lookup(at.0, at.1)?;
        this.world.link(file, to.0, to.1)
    }),
    ("SETATTR", |this, at, _| {
        let file = this.world.lookup(at.0, at.1)?;
        let (bits, seconds) = (0o600 | this.roll(8) as u32, this.roll(1000) as u32);
        this.world.set(file, SetAttributes { mtime: time(seconds), ..mode(bits | 0o100) })
    }),
    ("SETATTR of the size", |this, at, _| {
        let (file, size) = (this.world.lookup(at.0, at.1)?, 10 + this.roll(100) as u64);
        this.world.set(file, SetAttributes { size: Some(size), ..SetAttributes::default() })
    }),
    ("WRITE, stable", |this, at, _| {
        let file = this.world.lookup(at.0, at.1)?;
        this.world.write_how(file, Stability::FileSync).map(drop)
    }),
    ("COMMIT", |this, at, _| {
        let file = this.world.lookup(at.0, at.1)?;
        this.world.write_how(file, Stability::Unstable)?;
        this.world.commit(file).map(drop)
    }),
];

/// Makes what the procedure needs, and calls it.
fn carry_out(name: &str, act: Procedure, syncs: bool) -> CrashWorld {
    let mut this = CrashWorld::new(1);
    let root = this.world.root();
    let from = match name {
        "CREATE" | "CREATE with attributes" | "CREATE, exclusive" | "MKDIR" | "SYMLINK" | "MKNOD" => "new",
        "RMDIR" => "dir",
        _ => "file",
    };
    let dir = this.world.mkdir(root, "dir");
    this.world.create(root, "file").unwrap();
    this.world.mkdir(root, "to");
    assert_eq!(this.faults(10), 0, "before {name}");
    let _ = this.world.fs.clone().with_sync(syncs);
    let to = if matches!(name, "RENAME" | "LINK") { dir } else { root };
    act(&mut this, (root, from), (to, "moved")).unwrap();
    this
}

#[test]
fn what_a_procedure_acknowledges_survives_a_crash() {
    for (name, act) in PROCEDURES {
        assert_eq!(carry_out(name, act, true).faults(20), 0, "{name}");
        assert_ne!(carry_out(name, act, false).faults(20), 0, "{name} without syncs: the test sees nothing");
    }
}

/// Changes at random, and the number of crash states that are wrong.
fn change_at_random(seed: u64, drops_half: bool) -> usize {
    let mut this = CrashWorld::new(seed);
    this.disk.0.lock().unwrap().drops_half = drops_half;
    let mut dirs = vec![this.world.root()];
    let (mut faults, mut acknowledged) = (0, 0);
    for _ in 0..150 {
        // A handle of a directory that is gone is refused.
        acknowledged += usize::from(this.change(&mut dirs).is_ok());
        faults += this.faults(3);
    }
    assert!(acknowledged > 10, "seed {seed}: {acknowledged} changes");
    faults
}

#[test]
fn no_acknowledged_change_is_lost_in_a_crash() {
    let seeds = if std::env::var_os("ONEGO_TEST_LONG").is_some() { 300 } else { 6 };
    for seed in 1..=seeds {
        assert_eq!(change_at_random(seed, false), 0, "seed {seed}");
        assert_ne!(
            change_at_random(seed, true),
            0,
            "seed {seed}: half of the syncs are dropped, and nothing is lost"
        );
    }
}

#[test]
fn unstable_data_alone_may_be_lost() {
    let mut this = CrashWorld::new(1);
    let root = this.world.root();
    let file = this.world.create(root, "unstable").unwrap();
    this.world.write_how(file, Stability::Unstable).unwrap();
    assert_ne!(this.faults(10), 0);
    this.unstable.insert(file);
    assert_eq!(this.faults(10), 0);
    this.unstable.clear();
    this.world.commit(file).unwrap();
    assert_eq!(this.faults(10), 0);
}

#[test]
fn every_client_learns_of_a_failed_sync() {
    let mut this = CrashWorld::new(1);
    let root = this.world.root();
    let file = this.world.create(root, "file").unwrap();
    let written = this.world.write_how(file, Stability::Unstable).unwrap();
    this.disk.0.lock().unwrap().fails_next = true;
    assert_eq!(this.world.commit(file), Err(Status::Io));
    // The kernel reports it once. A verifier that differs makes the client of the WRITE send it again.
    let again = this.world.commit(file).unwrap();
    assert_ne!(again, written);
    assert_eq!(this.world.write_how(file, Stability::Unstable), Ok(again));
    assert_eq!(this.world.commit(file), Ok(again));
    for (name, act) in PROCEDURES {
        let mut this = carry_out("CREATE", PROCEDURES[0].1, true);
        let root = this.world.root();
        let (file, new) = ["file", "new"].map(|name| this.world.lookup(root, name).unwrap()).into();
        let before = this.world.write_how(file, Stability::Unstable).unwrap();
        this.disk.0.lock().unwrap().fails_next = true;
        let from = if name == "RMDIR" { "dir" } else { "file" };
        let from = if name.starts_with(['C', 'M']) && name != "COMMIT" || name == "SYMLINK" {
            "other"
        } else {
            from
        };
        assert_eq!(act(&mut this, (root, from), (root, "moved")), Err(Status::Io), "{name}");
        assert_ne!(this.world.commit(new), Ok(before), "{name}");
    }
}
