//! A disk that forgets: what is left of files after a crash is any part of what was not synced.

use onego_cluster::journal::{Append, BLOCK, Done, Files, Job, LogId, Snapshot, Writer, write_checkpoint};
use onego_testkit::Node;
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

/// What a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// Names a file whatever it is called.
type FileId = usize;

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What the file had before it was written anew: it is still behind what was written, or in its place after a crash.
    old: Vec<u8>,
    /// Of these it is certain that they are there after a crash.
    durable: usize,
    /// Nothing follows, not even space that was allocated ahead.
    finished: bool,
}

impl Content {
    /// All that the file has now.
    fn all(&self) -> Vec<u8> {
        let behind = self.old.get(self.bytes.len()..).filter(|_| !self.finished);
        [&self.bytes, behind.unwrap_or_default()].concat()
    }
}

/// A change of a folder.
#[derive(Debug, Clone)]
enum Change {
    Create(String, FileId),
    Rename(String, String),
    Remove(String),
}

fn apply(names: &mut BTreeMap<String, FileId>, change: &Change) {
    match change {
        Change::Create(name, id) => drop(names.insert(name.clone(), *id)),
        Change::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        Change::Remove(name) => drop(names.remove(name)),
    }
}

#[derive(Debug)]
struct DiskState {
    files: Vec<Content>,
    names: BTreeMap<String, FileId>,
    durable_names: BTreeMap<String, FileId>,
    /// Changes of names that are not durable.
    changes: Vec<Change>,
    random: SmallRng,
    /// Operations until the disk fails, and by which error.
    left: u64,
    errno: i32,
}

/// A disk; clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk(Rc<RefCell<DiskState>>);

/// A file that is written.
pub(crate) struct File {
    disk: Disk,
    id: FileId,
}

impl Disk {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(DiskState {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            random: SmallRng::seed_from_u64(seed ^ 0xd15c),
            left: u64::MAX,
            errno: 0,
        })))
    }

    /// The disk fails at this operation from now on, the next being number 1, and at all after it.
    pub(crate) fn fail_after(&self, operations: u64, errno: i32) {
        let mut state = self.0.borrow_mut();
        (state.left, state.errno) = (operations, errno);
    }

    /// The machine loses its power: of what was not synced, any part is left.
    pub(crate) fn crash(&self) {
        let state = &mut *self.0.borrow_mut();
        state.left = u64::MAX;
        // Changes of names reach the disk as they were made, up to some point, except that a removal may not.
        let kept = state.random.random_range(0..=state.changes.len());
        for change in std::mem::take(&mut state.changes).into_iter().take(kept) {
            if !matches!(change, Change::Remove(_)) || state.random.random() {
                apply(&mut state.durable_names, &change);
            }
        }
        state.names = state.durable_names.clone();
        for file in &mut state.files {
            let (durable, len) = (file.durable, file.bytes.len());
            // Whether data or the length of the file comes first is up to the disk.
            file.bytes.truncate(state.random.random_range(durable..=len));
            let style = state.random.random_range(0..4);
            let mut at = durable;
            while at < file.bytes.len() {
                let end = ((at / SECTOR + 1) * SECTOR).min(file.bytes.len());
                match style {
                    // All of it was written.
                    0 => {}
                    1 if state.random.random() => state.random.fill(&mut file.bytes[at..end]),
                    _ if state.random.random() => {
                        file.bytes[at..end].fill(0);
                        let old = file.old.get(at..end.min(file.old.len())).unwrap_or_default();
                        file.bytes[at..at + old.len()].copy_from_slice(old);
                    }
                    _ => {}
                }
                at = end;
            }
            file.bytes = file.all();
            file.old.clear();
            if !file.finished {
                let ahead = state.random.random_range(0..3 * BLOCK);
                file.bytes.resize(file.bytes.len() + ahead, 0);
            }
            file.durable = file.bytes.len();
        }
    }

    /// One operation more; an error if the disk has failed.
    fn operate(&self) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.left = state.left.saturating_sub(1);
        if state.left == 0 { Err(io::Error::from_raw_os_error(state.errno)) } else { Ok(()) }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.operate()?;
        let state = &mut *self.0.borrow_mut();
        apply(&mut state.names, &change);
        state.changes.push(change);
        Ok(())
    }

    fn id(&self, name: &str) -> io::Result<FileId> {
        self.0.borrow().names.get(name).copied().ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fails = self.disk.operate();
        let state = &mut *self.disk.0.borrow_mut();
        // Some of it is written even if it fails, and not always all of it if it does not.
        let take = if fails.is_err() || bytes.len() > 100_000 {
            state.random.random_range(1..=bytes.len())
        } else {
            bytes.len()
        };
        state.files[self.id].bytes.extend(&bytes[..take]);
        fails.map(|()| take)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files for Disk {
    type File = File;

    fn names(&self) -> io::Result<Vec<String>> {
        self.operate()?;
        Ok(self.0.borrow().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + '_>, u64)> {
        self.operate()?;
        let bytes = self.0.borrow().files[self.id(name)?].all();
        let len = bytes.len() as u64;
        Ok((Box::new(io::Cursor::new(bytes)), len))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut state = self.0.borrow_mut();
        state.files.push(Content::default());
        let id = state.files.len() - 1;
        drop(state);
        self.change(Change::Create(name.to_owned(), id))?;
        Ok(File { disk: self.clone(), id })
    }

    fn reuse(&self, old: &str, name: &str) -> io::Result<File> {
        let id = self.id(old)?;
        self.change(Change::Rename(old.to_owned(), name.to_owned()))?;
        let content = &mut self.0.borrow_mut().files[id];
        *content = Content { old: content.all(), ..Content::default() };
        Ok(File { disk: self.clone(), id })
    }

    fn sync(&self, file: &mut File) -> io::Result<()> {
        self.operate()?;
        let content = &mut self.0.borrow_mut().files[file.id];
        content.bytes.resize(content.bytes.len().next_multiple_of(BLOCK), 0);
        content.durable = content.bytes.len();
        Ok(())
    }

    fn finish(&self, file: &mut File) -> io::Result<()> {
        self.operate()?;
        let content = &mut self.0.borrow_mut().files[file.id];
        content.durable = content.bytes.len();
        content.finished = true;
        Ok(())
    }

    fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        self.operate()?;
        let id = self.id(name)?;
        let content = &mut self.0.borrow_mut().files[id];
        content.bytes = content.all();
        content.bytes.truncate(len as usize);
        content.durable = content.bytes.len();
        content.finished = true;
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(Change::Remove(name.to_owned()))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.operate()?;
        let state = &mut *self.0.borrow_mut();
        state.durable_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }
}

/// Carries out the jobs of a cluster on a disk, in virtual time.
pub(crate) struct Storage {
    pub(crate) disk: Disk,
    writer: Writer<Disk>,
    appends: VecDeque<(Time, Append)>,
    checkpoint: Option<(Time, Snapshot)>,
    results: Vec<Done>,
    random: SmallRng,
    /// The disk has failed: nothing is carried out any more.
    pub(crate) failed: bool,
    pub(crate) checkpoints: u32,
}

impl Storage {
    /// Begins a log.
    pub(crate) fn begin(disk: Disk, log: LogId, seed: u64) -> io::Result<Self> {
        let writer = Writer::begin(&disk, log)?;
        Ok(Self {
            disk,
            writer,
            appends: VecDeque::new(),
            checkpoint: None,
            results: Vec::new(),
            random: SmallRng::seed_from_u64(seed),
            failed: false,
            checkpoints: 0,
        })
    }

    /// Takes a job on.
    pub(crate) fn take(&mut self, now: Time, job: Job) {
        let mut later = |micros| now + Duration::from_micros(self.random.random_range(1..micros));
        match job {
            Job::Append(append) => {
                let due = later(5_000);
                self.appends.push_back((due, append));
            }
            Job::Checkpoint(snapshot) => {
                let due = later(200_000);
                let before = snapshot.before();
                self.checkpoint = Some((due, *snapshot));
                // The log ends here for good; what was to go there goes there first.
                self.append();
                let rotated = self.failed || self.writer.rotate(&self.disk, before).is_ok();
                self.failed |= !rotated;
            }
        }
    }

    pub(crate) fn results(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.results)
    }

    /// One sync for all that waits.
    fn append(&mut self) {
        if self.failed || self.appends.is_empty() {
            return;
        }
        let all = self.appends.drain(..).map(|(_, append)| append);
        match self.writer.append(&self.disk, all) {
            Ok(durable) => self.results.extend(durable.map(Done::Durable)),
            Err(_) => self.failed = true,
        }
    }
}

impl Node for Storage {
    fn addr(&self) -> IpAddr {
        // Nobody comes here.
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    }

    fn deadline(&self) -> Option<Time> {
        if self.failed {
            return None;
        }
        let append = self.appends.front().map(|(due, _)| *due);
        append.into_iter().chain(self.checkpoint.as_ref().map(|(due, _)| *due)).min()
    }

    fn turn(&mut self) {
        let first = self.deadline();
        match self.checkpoint.take_if(|(due, _)| Some(*due) == first) {
            None => self.append(),
            Some((_, snapshot)) => match write_checkpoint(&self.disk, snapshot) {
                Ok(size) => {
                    self.checkpoints += 1;
                    self.results.push(Done::Checkpoint(size));
                }
                Err(_) => self.failed = true,
            },
        }
    }
}
