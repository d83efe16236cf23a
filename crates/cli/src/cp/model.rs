//! A model of copies: sources and destinations of all kinds, which change while they are copied, and copies that are
//! interrupted anywhere and resumed.
//!
//! The oracle knows nothing of how copies are made. It sees the bytes of files as the system has them (files on the server
//! are those of a directory that is served), and holds copies to this:
//!
//! - A copy that succeeds has the size that the source had when it began, and each byte is one that the source had there
//!   during that run. Where the source did not change, the copy equals it, has its time, and the permissions of a new file.
//! - A copy that fails leaves a file of that name as it was, unless it is written in place or was continued.
//! - A copy onto itself, of nothing that can be read, or over what is to stay, fails.
//! - A copy of a source that does not change can be resumed, and succeeds.
//! - Nothing but the copy is left after a success, and holes stay holes.

use super::earlier::Tuning;
use super::{CopyJob, Copying};
use crate::device::{FileArgs, Source};
use crate::partial::{Existing, Record, SyncEvery};
use crate::partial_import::IncompleteArgs;
use crate::{Cli, access::Access};
use clap::Parser as _;
use onego_nfs_server::{Config, Export, Server, Squash};
use onego_testkit::seeds::Seeds;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a piece, and of the blocks that contents are made of.
const BLOCK: usize = 4096;

const TUNING: Tuning = Tuning {
    piece: BLOCK as u64,
    span: 4 * BLOCK as u64,
    unstable: 2 * BLOCK as u64,
    sample: 512,
    sample_every: 4 * BLOCK as u64,
    sync_every: SyncEvery { bytes: 6 * BLOCK as u64, time: Duration::from_millis(1) },
    settled: Duration::from_millis(20),
};

/// Random numbers by seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Blocks of data and of zeros, and part of a block.
    fn content(&mut self) -> Vec<u8> {
        let blocks = if self.one_in(12) { 0 } else { self.below(40) };
        let mut bytes = Vec::new();
        for _ in 0..blocks {
            let fill = if self.one_in(3) { 0 } else { self.next() as u8 | 1 };
            bytes.extend((0..BLOCK).map(|at| if fill == 0 { 0 } else { fill ^ (at as u8 & 0x7e) }));
        }
        let part = if self.one_in(2) { 0 } else { self.below(BLOCK) };
        bytes.extend(std::iter::repeat_n(7, part));
        bytes
    }
}

/// Where both ends are, for one process of the tests.
struct World {
    access: Access,
    folder: tempfile::TempDir,
    server: Server,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["here", "served"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let export = Export::default().with_squash(Squash::None).with_secure(false);
        let path = folder.path().join("served");
        let directory = onego_nfs_server::Source::Directory { path, handle_key: None };
        let server = Server::start(Config::default().with_export(export).with_source(directory)).unwrap();
        let access = Cli::try_parse_from(["onego", "--spin", "never", "demo"]).unwrap().access;
        Self { access, folder, server }
    }

    /// Waits until the server has carried out what clients that are gone have sent.
    fn settle(&self) {
        loop {
            let stats = self.server.stats().unwrap();
            if stats.connections == 0 && stats.operations.in_flight == 0 {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn clear(&self) {
        for dir in ["here", "served"] {
            for entry in fs::read_dir(self.folder.path().join(dir)).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
    }
}

/// One end of a copy.
struct End {
    device: Source,
    /// The same file as the system has it.
    path: PathBuf,
}

impl End {
    fn new(world: &World, name: &str, is_served: bool) -> Self {
        let dir = if is_served { "served" } else { "here" };
        let path = world.folder.path().join(dir).join(name);
        let device = match is_served {
            true => format!("nfs://127.0.0.1:{}/export/{name}", world.server.addr().port()).parse().unwrap(),
            false => Source::Disk(path.clone()),
        };
        Self { device, path }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        fs::read(&self.path).ok()
    }
}

/// Writes a file with holes where its bytes are zeros.
fn write(path: &Path, content: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(content.len() as u64).unwrap();
    for (number, block) in content.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, (number * BLOCK) as u64).unwrap();
        }
    }
}

/// The source, and all that it was during a run.
struct Changing {
    end: End,
    now: Vec<u8>,
    /// States during the run.
    states: Vec<Vec<u8>>,
}

impl Changing {
    fn change(&mut self, random: &mut Random) {
        let file = File::options().write(true).open(&self.end.path).unwrap();
        match random.below(4) {
            0 => {
                self.now.truncate(random.below(self.now.len() + 1));
                file.set_len(self.now.len() as u64).unwrap();
            }
            1 => {
                let more = vec![random.next() as u8; random.below(3 * BLOCK)];
                file.write_all_at(&more, self.now.len() as u64).unwrap();
                self.now.extend(more);
            }
            // Another file of that name.
            2 => {
                self.now = random.content();
                fs::remove_file(&self.end.path).unwrap();
                write(&self.end.path, &self.now);
            }
            // The same length.
            _ if !self.now.is_empty() => {
                let at = random.below(self.now.len());
                let length = random.below((self.now.len() - at).min(2 * BLOCK)) + 1;
                let fill = if random.one_in(3) { 0 } else { random.next() as u8 };
                self.now[at..at + length].fill(fill);
                file.write_all_at(&self.now[at..at + length], at as u64).unwrap();
            }
            _ => return,
        }
        self.states.push(self.now.clone());
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Done,
    /// Before anything was begun.
    Refused,
    Failed,
    Interrupted,
}

/// What was seen, so that the tests can tell that all of it happens.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    done: u32,
    failed: u32,
    interrupted: u32,
    resumed: u32,
    /// Resumed after the begin.
    continued: u32,
    changed: u32,
}

fn existing(random: &mut Random, is_first: bool) -> Existing {
    match random.below(if is_first { 6 } else { 10 }) {
        0 => Existing::Refuse,
        1 => Existing::InPlace,
        2 | 3 => Existing::Replace,
        _ => Existing::Resume,
    }
}

/// Runs a copy until it ends or is interrupted; the source may change at any step.
fn run(
    world: &World,
    job: &CopyJob<'_>,
    source: &mut Changing,
    random: &mut Random,
    seen: &mut Seen,
) -> (Run, String) {
    let mut copying = match Copying::begin(&world.access, None, job, &TUNING) {
        Ok(copying) => copying,
        Err(failure) => return (Run::Refused, failure.sentence()),
    };
    if job.existing == Existing::Resume {
        seen.resumed += 1;
        seen.continued += u32::from(copying.start() > 0);
    }
    let steps = if random.one_in(3) { usize::MAX } else { random.below(12) };
    let changes = random.one_in(3);
    for _ in 0..steps {
        if changes && random.one_in(4) {
            source.change(random);
        }
        match copying.step(BLOCK as u64 * (1 + random.below(4)) as u64) {
            Ok(false) => {}
            Ok(true) => match copying.finish() {
                Ok(()) => return (Run::Done, String::new()),
                Err(failure) => return (Run::Failed, failure.sentence()),
            },
            Err(failure) => {
                copying.abandon();
                return (Run::Failed, failure.sentence());
            }
        }
    }
    drop(copying);
    (Run::Interrupted, String::new())
}

/// What a destination was before a run.
struct Before {
    bytes: Option<Vec<u8>>,
    mode: Option<u32>,
}

/// Checks a copy that has succeeded.
fn check_copy(source: &Changing, to: &End, before: &Before, existing: Existing, names_before: &[String]) {
    let began = &source.states[0];
    let copy = to.bytes().expect("the copy has its name");
    assert_eq!(copy.len(), began.len(), "the size is that of the source when the copy began");
    if source.states.len() == 1 {
        assert!(copy == *began, "the copy differs at {:?}", copy.iter().zip(began).position(|(a, b)| a != b));
    }
    for (at, byte) in copy.iter().enumerate() {
        let had = source.states.iter().any(|state| state.get(at) == Some(byte));
        assert!(had, "byte {at} is {byte}, which the source did not have there during the copy");
    }
    let (about, of) = (fs::metadata(&to.path).unwrap(), fs::metadata(&source.end.path).unwrap());
    let is_fresh = existing != Existing::InPlace || before.bytes.is_none();
    if source.states.len() == 1 && is_fresh {
        assert_eq!(about.modified().unwrap(), of.modified().unwrap(), "the time of the source");
        let mode = before.mode.unwrap_or_else(|| of.permissions().mode() & 0o755);
        assert_eq!(about.permissions().mode() & 0o777, mode, "the permissions");
    }
    if source.states.len() == 1 {
        let data = began.chunks(BLOCK).filter(|block| block.iter().any(|byte| *byte != 0)).count();
        let most = (data + 4) * BLOCK;
        assert!(about.blocks() * 512 <= most as u64, "{} blocks for {data} of data", about.blocks() / 8);
    }
    let left = names(&to.path);
    assert!(left.iter().all(|name| names_before.contains(name) || to.path.ends_with(name)), "left: {left:?}");
    // A copy in place leaves what an interrupted one has left.
    let is_clean = !left.iter().any(|name| name.contains(".onego-"));
    assert!(is_clean || existing == Existing::InPlace, "left: {left:?}");
}

/// Names next to a file.
fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path.parent().unwrap()).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn one(world: &World, seed: u64) -> Seen {
    let (mut random, mut seen) = (Random(seed), Seen::default());
    world.clear();
    let from = End::new(world, "source", random.one_in(2));
    let to = End::new(world, "copy", random.one_in(2));
    let now = random.content();
    write(&from.path, &now);
    let mode = [0o644, 0o600, 0o640, 0o755][random.below(4)];
    fs::set_permissions(&from.path, Permissions::from_mode(mode)).unwrap();
    match random.below(6) {
        0 => write(&to.path, &random.content()),
        1 => write(&to.path, &now[..random.below(now.len() + 1)]),
        2 => write(&to.path, &[&now[..], &[9; 100]].concat()),
        _ => {}
    }
    if random.one_in(2) {
        let time = std::time::UNIX_EPOCH + Duration::new(1_600_000_000, random.below(1_000_000_000) as u32);
        File::options().write(true).open(&from.path).unwrap().set_modified(time).unwrap();
    }
    let mut source = Changing { end: from, now, states: Vec::new() };
    let depth = 1 + random.below(6);
    // What the last run left is of the source as it is.
    let mut is_resumable = false;
    for attempt in 0..4 {
        let existing = existing(&mut random, attempt == 0);
        let before = Before {
            bytes: to.bytes(),
            mode: fs::metadata(&to.path).ok().map(|about| about.permissions().mode() & 0o777),
        };
        let names_before = names(&to.path);
        if random.one_in(4) {
            std::thread::sleep(TUNING.settled + Duration::from_millis(5));
        }
        source.states = vec![source.now.clone()];
        // Files that are served can be named here, too.
        let device = match random.one_in(8) {
            true => Source::Disk(source.end.path.clone()),
            false => source.end.device.clone(),
        };
        let job = job(&device, &to.device, existing, depth);
        let (run, said) = run(world, &job, &mut source, &mut random, &mut seen);
        world.settle();
        let has_changed = source.states.len() > 1;
        seen.changed += u32::from(has_changed);
        let context = format!("attempt {attempt}, {existing:?}: {run:?} {said}");
        match run {
            Run::Done => {
                seen.done += 1;
                assert!(existing != Existing::Refuse || before.bytes.is_none(), "{context}: it overwrites");
                check_copy(&source, &to, &before, existing, &names_before);
                return seen;
            }
            Run::Refused | Run::Failed => seen.failed += 1,
            Run::Interrupted => {
                seen.interrupted += 1;
                lose_writes(&to, &mut random);
            }
        }
        if existing != Existing::InPlace || run == Run::Refused {
            let after = to.bytes();
            // A file that is continued is moved.
            let may_be_moved = existing == Existing::Resume && run != Run::Refused;
            let is_as_before = after == before.bytes || after.is_none() && may_be_moved;
            assert!(is_as_before, "{context}: a copy that is not whole changes the file of its name");
        }
        let is_left = names_before.iter().any(|name| name == ".copy.onego-partial");
        let must_go_on = is_resumable && is_left && existing == Existing::Resume && !has_changed;
        assert!(!must_go_on || run == Run::Interrupted, "{context}: the source did not change");
        if run == Run::Interrupted {
            is_resumable = existing != Existing::InPlace;
        }
        is_resumable &= !has_changed;
        if random.one_in(4) {
            source.change(&mut random);
            is_resumable = false;
        }
    }
    seen
}

/// Undoes writes that were in flight when the copy ended: a copy that is killed may leave them out, a power cut loses all that
/// was not synced, and a server that crashes loses what it kept in memory.
fn lose_writes(to: &End, random: &mut Random) {
    let partial = to.path.with_file_name(".copy.onego-partial");
    let Ok(file) = File::options().write(true).open(&partial) else { return };
    let len = file.metadata().unwrap().len();
    let record = fs::read(to.path.with_file_name(".copy.onego-source")).unwrap();
    let sure = match to.device {
        Source::Nfs(_) => len.saturating_sub(TUNING.span + TUNING.unstable),
        _ => Record::parse(&record).unwrap().synced,
    };
    let first = sure.next_multiple_of(BLOCK as u64);
    for at in (first..len).step_by(BLOCK) {
        if random.one_in(3) {
            let end = len.min(at + BLOCK as u64);
            file.write_all_at(&vec![0; (end - at) as usize], at).unwrap();
        }
    }
}

fn job<'a>(source: &'a Source, destination: &'a Source, existing: Existing, depth: usize) -> CopyJob<'a> {
    CopyJob {
        source,
        destination,
        existing,
        overwrites: false,
        into_directory: true,
        adopts: true,
        destination_is_zero: false,
        depth,
        pool: None,
        shows_progress: false,
        files: FileArgs::RAW,
        incomplete: IncompleteArgs::default(),
        shape: None,
    }
}

#[test]
fn copies_are_their_sources_however_they_are_interrupted() {
    let world = World::new();
    let seeds = Seeds { short: 150, long: 10_000 };
    let seen = seeds.each("-p onego-cli --bin onego copies_are_their_sources", |seed| one(&world, seed));
    let Some(seen) = seen else { return };
    let total = |of: fn(&Seen) -> u32| seen.iter().map(of).sum::<u32>();
    let (runs, floor) = (seen.len() as u32, seen.len() as u32 / 20);
    for (what, count) in [
        ("done", total(|seen| seen.done)),
        ("failed", total(|seen| seen.failed)),
        ("interrupted", total(|seen| seen.interrupted)),
        ("resumed", total(|seen| seen.resumed)),
        ("continued", total(|seen| seen.continued)),
        ("changed", total(|seen| seen.changed)),
    ] {
        assert!(count >= floor, "of {runs} seeds only {count} are {what}");
        eprintln!("{runs} seeds: {count} {what}");
    }
}

#[test]
fn copies_onto_themselves_and_of_what_cannot_be_read_change_nothing() {
    let world = World::new();
    for (is_served, existing) in
        [false, true].into_iter().flat_map(|served| ALL.into_iter().map(move |existing| (served, existing)))
    {
        world.clear();
        let file = End::new(&world, "file", is_served);
        write(&file.path, b"precious");
        fs::hard_link(&file.path, file.path.with_file_name("link")).unwrap();
        let sources = [
            End::new(&world, "file", is_served),
            End::new(&world, "link", is_served),
            // By the path here of what is served.
            End { device: Source::Disk(file.path.clone()), path: file.path.clone() },
            End::new(&world, "missing", is_served),
            End::new(&world, "missing/file", is_served),
            End { device: Source::Disk(world.folder.path().to_owned()), path: file.path.clone() },
        ];
        for source in sources {
            let job = job(&source.device, &file.device, existing, 1);
            let refused = Copying::begin(&world.access, None, &job, &TUNING).err();
            let refused = refused.unwrap_or_else(|| panic!("{existing:?} {}", source.device)).sentence();
            assert_eq!(file.bytes().unwrap(), b"precious", "{existing:?} {}: {refused}", source.device);
            assert_eq!(names(&file.path).len(), 2, "{refused}");
        }
    }
}

const ALL: [Existing; 4] = [Existing::Refuse, Existing::Replace, Existing::Resume, Existing::InPlace];
