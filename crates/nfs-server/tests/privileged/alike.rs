//! Both backends beside each other: the same calls have the same outcomes in memory as in a directory, where the kernel
//! decides.

use onego_buf::Pool;
use onego_engine::credentials::{self, Credentials};
use onego_nfs::v3::{
    self, Attributes, CreateHow, FileType, Handle, Name, Node, Place, SetAttributes, SetTime, Stability,
    Status, access,
};
use onego_nfs_server::{Caller, Context, Directory, FileSystem, Limits, Memory};
use onego_testkit::{Need, NeedyTest, needy_tests};
use onego_wire::Time;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![&[Need::Root]; both_backends_answer_alike];

/// Names that calls have: few, so that they meet, and those that the policy refuses.
const NAMES: [&[u8]; 9] = [b"a", b"b", b"c", b"d", b".", b"..", b"", b"a/b", &[b'x'; 256]];

/// How often a call is tried while the system is short of something.
const TRIES: usize = 1000;

/// A call. The numbers choose among the names and among the files that are known.
#[derive(Debug, Clone)]
struct BackendStep {
    user: u8,
    operation: u8,
    file: usize,
    place: (usize, usize),
    to: (usize, usize),
    bits: u32,
    size: u16,
}

fn step() -> impl Strategy<Value = BackendStep> {
    let name = prop_oneof![20 => 0..4_usize, 1 => 4..NAMES.len()];
    let place = (0..12_usize, name);
    let bits = prop_oneof![3 => Just(0o777_u32), 1 => 0..0o10000_u32];
    // Kernels differ in what they make of a set-group-ID bit where the group may not execute.
    let bits = bits.prop_map(|bits| if bits & 0o010 == 0 { bits & !0o2000 } else { bits });
    (0..4_u8, 0..OPERATIONS.len() as u8, 0..12_usize, place.clone(), place, bits, any::<u16>()).prop_map(
        |(user, operation, file, place, to, bits, size)| BackendStep {
            user,
            operation,
            file,
            place,
            to,
            bits,
            size,
        },
    )
}

/// What a call has shown of files, without that in which the backends may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    Nothing,
    File { file_type: FileType, mode: u32, uid: u32, gid: u32, links: u32, size: u64 },
    Granted(u32),
    Bytes(Vec<u8>, bool),
    Names(Vec<(Vec<u8>, bool)>),
}

/// The outcome of a call, and the file that it has found.
type BackendResult = (Result<Shown, Status>, Option<Handle>);

fn file(attributes: Option<Attributes>) -> Shown {
    let Attributes { file_type, mode, links, uid, gid, size, .. } = attributes.expect("both tell attributes");
    // Links have no permissions, and file systems count and size their directories as they like.
    let mode = if file_type == FileType::Symlink { 0 } else { mode };
    let (links, size) = if file_type == FileType::Directory { (0, 0) } else { (links, size) };
    Shown::File { file_type, mode, uid, gid, links, size }
}

fn failed<T>(failed: v3::Failed<T>) -> BackendResult {
    (Err(failed.status), None)
}

fn made(made: Result<v3::CreateOk, v3::Failed<v3::Change>>) -> BackendResult {
    made.map_or_else(failed, |made| (Ok(file(made.attributes)), made.file))
}

fn changed<T, F>(changed: Result<T, v3::Failed<F>>) -> BackendResult {
    changed.map_or_else(failed, |_| (Ok(Shown::Nothing), None))
}

/// A file system, and the handles of the files that are known. The first is the root.
struct Side<'a> {
    fs: &'a mut dyn FileSystem,
    files: &'a [Handle],
}

impl Side<'_> {
    fn file(&self, number: usize) -> Handle {
        self.files[number % self.files.len()]
    }

    fn place(&self, (dir, name): (usize, usize)) -> Place {
        Place { dir: self.file(dir), name: Name(NAMES[name].to_vec()) }
    }
}

type Operation = (&'static str, fn(&mut Side<'_>, Context<'_>, &BackendStep) -> BackendResult);

const OPERATIONS: [Operation; 20] = [
    ("getattr", |side, cx, step| {
        let found = side.fs.getattr(cx, side.file(step.file));
        found.map_or_else(failed, |found| (Ok(file(Some(found))), None))
    }),
    ("set mode", |side, cx, step| {
        let found = side.fs.getattr(cx, side.file(step.file));
        if found.is_ok_and(|file| file.file_type == FileType::Symlink) {
            // Linux has no permissions there to set.
            return (Ok(Shown::Nothing), None);
        }
        set(side, cx, step, SetAttributes { mode: Some(step.bits), ..SetAttributes::default() })
    }),
    ("set size", |side, cx, step| {
        set(side, cx, step, SetAttributes { size: Some(step.size.into()), ..SetAttributes::default() })
    }),
    ("set owner", |side, cx, step| {
        set(
            side,
            cx,
            step,
            SetAttributes { uid: Some(user(step.size as u8).uid), ..SetAttributes::default() },
        )
    }),
    ("set group", |side, cx, step| {
        set(
            side,
            cx,
            step,
            SetAttributes { gid: Some(user(step.size as u8).gid), ..SetAttributes::default() },
        )
    }),
    ("set times", |side, cx, step| {
        let then = SetTime::To(v3::Time { seconds: 5, nanoseconds: u32::from(step.size) << 15 });
        let time = if step.size % 2 == 0 { SetTime::ServerTime } else { then };
        set(side, cx, step, SetAttributes { mtime: time, atime: time, ..SetAttributes::default() })
    }),
    ("lookup", |side, cx, step| {
        let found = side.fs.lookup(cx, side.place(step.place));
        found.map_or_else(failed, |found| (Ok(file(found.attributes)), Some(found.file)))
    }),
    ("access", |side, cx, step| {
        let args = v3::AccessArgs { file: side.file(step.file), wanted: access::ALL };
        side.fs.access(cx, args).map_or_else(failed, |answer| (Ok(Shown::Granted(answer.granted)), None))
    }),
    ("readlink", |side, cx, step| {
        let read = side.fs.readlink(cx, side.file(step.file));
        read.map_or_else(failed, |read| (Ok(Shown::Bytes(read.path, true)), None))
    }),
    ("read", |side, cx, step| {
        let args = v3::ReadArgs { file: side.file(step.file), offset: step.size.into(), count: 100 };
        let read = side.fs.read(cx, args);
        read.map_or_else(failed, |read| (Ok(Shown::Bytes(read.data.to_vec(), read.eof)), None))
    }),
    ("write", |side, cx, step| {
        let data = vec![step.bits as u8; step.bits as usize % 300].into();
        let (file, offset) = (side.file(step.file), u64::from(step.size) / 2);
        changed(side.fs.write(cx, v3::WriteArgs { file, offset, stable: Stability::Unstable, data }))
    }),
    ("create", |side, cx, step| {
        let set = SetAttributes { mode: Some(step.bits), ..SetAttributes::default() };
        let how = match step.size % 4 {
            0 => CreateHow::Guarded(set),
            1 => CreateHow::Exclusive([step.size as u8 >> 5; 8]),
            2 => CreateHow::Unchecked(SetAttributes { size: Some(0), ..set }),
            _ => CreateHow::Unchecked(set),
        };
        made(side.fs.create(cx, v3::CreateArgs { place: side.place(step.place), how }))
    }),
    ("mkdir", |side, cx, step| {
        // To set set-id bits, the directory is changed after it is made, by the rules of chmod().
        let attributes = SetAttributes { mode: Some(step.bits & 0o1777), ..SetAttributes::default() };
        made(side.fs.mkdir(cx, v3::MkdirArgs { place: side.place(step.place), attributes }))
    }),
    ("symlink", |side, cx, step| {
        let path = vec![b'x'; usize::from(step.size % 4)];
        made(side.fs.symlink(
            cx,
            v3::SymlinkArgs { place: side.place(step.place), attributes: SetAttributes::default(), path },
        ))
    }),
    ("mknod", |side, cx, step| {
        let set = SetAttributes { mode: Some(step.bits), ..SetAttributes::default() };
        let what = if step.size % 2 == 0 { Node::Fifo(set) } else { Node::Socket(set) };
        made(side.fs.mknod(cx, v3::MknodArgs { place: side.place(step.place), what }))
    }),
    ("remove", |side, cx, step| changed(side.fs.remove(cx, side.place(step.place)))),
    ("rmdir", |side, cx, step| changed(side.fs.rmdir(cx, side.place(step.place)))),
    ("rename", |side, cx, step| {
        let args = v3::RenameArgs { from: side.place(step.place), to: side.place(step.to) };
        changed(side.fs.rename(cx, args))
    }),
    ("link", |side, _, step| {
        // As root: Linux may forbid other users to link files that they do not own.
        let cx = Context { caller: &user(0), now: Time::default() };
        changed(side.fs.link(cx, v3::LinkArgs { file: side.file(step.file), link: side.place(step.place) }))
    }),
    ("readdirplus", |side, cx, step| {
        let (dir, max) = (side.file(step.file), 1 << 16);
        let args = v3::ReaddirplusArgs { dir, cookie: 0, verifier: [0; 8], dir_count: max, max_count: max };
        let listed = side.fs.readdirplus(cx, args);
        listed.map_or_else(failed, |listed| {
            // The directory that is served is its own parent, and the kernel is not asked.
            let names = listed.entries.into_iter().filter(|entry| entry.name.0 != b"..");
            let names = names.map(|entry| (entry.name.0, entry.file.is_some()));
            let mut names: Vec<_> = names.collect();
            names.sort();
            (Ok(Shown::Names(names)), None)
        })
    }),
];

fn set(side: &mut Side<'_>, cx: Context<'_>, step: &BackendStep, attributes: SetAttributes) -> BackendResult {
    changed(side.fs.setattr(cx, v3::SetattrArgs { file: side.file(step.file), attributes, guard: None }))
}

/// Root, and users who share a group.
fn user(number: u8) -> Caller {
    let id = u32::from(number % 3) * 1000;
    Caller { uid: id, gid: id, groups: vec![500] }
}

/// Both file systems, and the handles of what has been found in them.
struct Pair {
    memory: Memory,
    directory: Directory,
    files: [Vec<Handle>; 2],
    now: Time,
    _folder: tempfile::TempDir,
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The folder is removed as the user of the test.
        let _ = credentials::assume(Credentials::Process);
    }
}

impl Pair {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        // As the root of the file system in memory.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).expect("it is ours");
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        let limits = Limits { bytes: 64 << 20, files: 1000 };
        let mut memory = Memory::new(limits, 7, Pool::new(1 << 20), now);
        let mut directory =
            Directory::open(folder.path(), &[5; 32], [7; 8], Pool::new(1 << 20)).expect("it is there");
        let (caller, path) = (user(0), &b""[..]);
        let cx = Context { caller: &caller, now };
        let roots = [memory.mount(cx, path), directory.mount(cx, path)];
        let files = roots.map(|root| vec![root.expect("the root is there")]);
        Self { memory, directory, files, now, _folder: folder }
    }

    /// Makes a call on both sides, and checks that the outcomes are the same; `true`: it has succeeded.
    fn check(&mut self, step: &BackendStep) -> bool {
        let caller = user(step.user);
        let cx = Context { caller: &caller, now: self.now };
        let (name, operation) = OPERATIONS[usize::from(step.operation)];
        let [memory_files, directory_files] = &self.files;
        let memory = operation(&mut Side { fs: &mut self.memory, files: memory_files }, cx, step);
        let mut side = Side { fs: &mut self.directory, files: directory_files };
        // The system may be short of memory or descriptors for a moment. A client tries again.
        let mut tries = (0..TRIES).map(|_| operation(&mut side, cx, step));
        let is_final = |outcome: &BackendResult| outcome.0 != Err(Status::Jukebox);
        let directory = tries.find(is_final).expect("the system has enough again");
        assert_eq!(memory.0, directory.0, "{name}: in memory, and in a directory");
        if let (Some(memory), Some(directory)) = (memory.1, directory.1) {
            self.learn([memory, directory], name);
        }
        memory.0.is_ok()
    }

    /// Both sides have found a file: the same one.
    fn learn(&mut self, found: [Handle; 2], name: &str) {
        let known = [0, 1].map(|side| self.files[side].iter().position(|file| *file == found[side]));
        assert_eq!(known[0], known[1], "{name} finds the same file");
        if known[0].is_none() {
            self.files.iter_mut().zip(found).for_each(|(files, file)| files.push(file));
        }
    }
}

fn both_backends_answer_alike() {
    let mut succeeded = BTreeMap::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::default());
    let strategy = prop::collection::vec(step(), 1..80);
    let counts = std::cell::RefCell::new(&mut succeeded);
    let result = runner.run(&strategy, |steps| {
        let mut pair = Pair::new();
        for step in &steps {
            if pair.check(step) {
                *counts.borrow_mut().entry(OPERATIONS[usize::from(step.operation)].0).or_insert(0) += 1;
            }
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    for (name, _) in OPERATIONS {
        assert!(succeeded.contains_key(name), "{name} has never succeeded");
    }
}
