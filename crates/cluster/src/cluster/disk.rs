//! The threads that carry out the jobs of a cluster's journal: one for the log, and one for a checkpoint while it is
//! written.

use crate::journal::{
    Append, DataError, Done, Files, Job, LogId, Snapshot, Writer, discard_checkpoint, is_refused_space,
    write_checkpoint,
};
use onego_engine::Waker;
use onego_service::{Executor, Jobs, Outcomes};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time without a job after which the log's thread writes what need not be durable. Before, a write would only be in the way
/// of the next sync.
const IDLE: Duration = Duration::from_millis(20);

/// Interval at which a full disk is checked for space.
const LOOK_FOR_SPACE: Duration = Duration::from_millis(500);

/// Carries out the jobs of a journal, and says what became of them. After an error nothing is carried out any more. Jobs that
/// were submitted are still written when this is dropped.
pub(super) type Disk = Executor<Job, Result<Done, DataError>>;

/// Begins a log in a directory. `waker` is woken when there are results.
pub(super) fn start<F>(directory: F, log: LogId, waker: &Waker) -> Result<Disk, DataError>
where
    F: Files + Send + Sync + 'static,
    F::File: Send,
{
    let failed = |source| DataError::Files { what: "beginning a log", source };
    let writer = Writer::begin(&directory, log).map_err(failed)?;
    let body = |jobs: Jobs<Job>, outcomes| {
        let tell = Tell(outcomes);
        Thread { directory: Arc::new(directory), writer, tell, has_reserve: true, checkpoint: None }
            .run(&jobs);
    };
    Executor::start("onego-log", waker, [body])
        .map_err(|source| DataError::Files { what: "starting the log's thread", source })
}

/// Tells results.
#[derive(Clone)]
struct Tell(Outcomes<Result<Done, DataError>>);

impl Tell {
    /// Returns whether all is well.
    fn tell(&self, what: &'static str, result: io::Result<Option<Done>>) -> bool {
        let result = result.map_err(|source| DataError::Files { what, source });
        let is_well = result.is_ok();
        if let Some(result) = result.transpose() {
            self.0.put(result);
        }
        is_well
    }
}

/// The log's thread.
struct Thread<F: Files> {
    directory: Arc<F>,
    writer: Writer<F>,
    tell: Tell,
    /// Last report on the reserve of space of the log.
    has_reserve: bool,
    /// The last checkpoint's thread.
    checkpoint: Option<JoinHandle<()>>,
}

impl<F> Thread<F>
where
    F: Files + Send + Sync + 'static,
    F::File: Send,
{
    fn run(mut self, jobs: &Jobs<Job>) {
        while let Some(first) = self.next(jobs) {
            // All that has come while the last sync ran goes into the next one.
            let (mut appends, mut checkpoint) = (Vec::new(), None);
            let mut next = Some(first);
            while let Some(job) = next {
                match job {
                    Job::Append(append) => appends.push(append),
                    Job::Checkpoint(snapshot) => {
                        checkpoint = Some(snapshot);
                        break;
                    }
                }
                next = jobs.take_ready();
            }
            if !self.append(appends) || !checkpoint.is_none_or(|snapshot| self.begin_checkpoint(*snapshot)) {
                break;
            }
        }
        if let Some(thread) = self.checkpoint.take() {
            let _ = thread.join();
        }
    }

    /// Waits for a job. `None`: there will be none any more, or the log has failed.
    fn next(&mut self, jobs: &Jobs<Job>) -> Option<Job> {
        if self.writer.is_unflushed() {
            match jobs.take_before(Instant::now() + IDLE) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => {
                    let flushed = self.writer.flush();
                    if !self.tell.tell("writing to the log", flushed.map(|()| None)) {
                        return None;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        while !self.has_reserve {
            match jobs.take_before(Instant::now() + LOOK_FOR_SPACE) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => self.look_for_reserve(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let job = jobs.take().ok();
        if job.is_none() {
            // A log that is not finished is as good, but longer, and takes a moment more to be read.
            let finished = self.writer.finish(&self.directory);
            self.tell.tell("ending the log", finished.map(|()| None));
        }
        job
    }

    fn append(&mut self, appends: Vec<Append>) -> bool {
        if appends.is_empty() {
            return true;
        }
        let written = self.writer.append(&*self.directory, appends);
        let is_well = self.tell.tell("writing to the log", written.map(|durable| durable.map(Done::Durable)));
        if is_well {
            self.look_for_reserve();
        }
        is_well
    }

    /// Tells whether the log has a reserve of space, if that has changed.
    fn look_for_reserve(&mut self) {
        let has_reserve = self.writer.has_reserve(&*self.directory);
        if has_reserve == self.has_reserve {
            return;
        }
        self.has_reserve = has_reserve;
        if has_reserve {
            tracing::info!("the disk has space again: clients may write");
        } else {
            tracing::warn!("the disk is full: clients may only read and remove until it has space again");
        }
        self.tell.tell("finding space", Ok(Some(Done::Reserve(has_reserve))));
    }

    fn begin_checkpoint(&mut self, snapshot: Snapshot) -> bool {
        let begun = self.writer.rotate(&*self.directory, snapshot.before());
        if !self.tell.tell("beginning a log", begun.map(|()| None)) {
            return false;
        }
        let (directory, tell) = (Arc::clone(&self.directory), self.tell.clone());
        let body = move || {
            let before = snapshot.before();
            let done = match write_checkpoint(&*directory, snapshot) {
                Err(error) if is_refused_space(&error) => {
                    tracing::warn!("no checkpoint: {error}");
                    discard_checkpoint(&*directory, before).map(|()| Done::NoCheckpoint)
                }
                written => written.map(Done::Checkpoint),
            };
            tell.tell("writing a checkpoint", done.map(Some));
        };
        // Only one is under way at a time, so that the thread of the one before has ended.
        match std::thread::Builder::new().name("onego-ckpt".into()).spawn(body) {
            Ok(thread) => self.checkpoint = Some(thread),
            Err(error) => return self.tell.tell("starting a checkpoint", Err(error)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterMachine, Keeping};
    use super::*;
    use crate::config::{OsdSettings, Settings};
    use crate::journal::{Directory, Restored};
    use crate::mon::NewPool;
    use onego_ceph::osdmap::pool_flag;
    use onego_ceph::types::Uuid;
    use onego_engine::{Engine as _, EngineKind};
    use onego_wire::{Action, Machine as _, Time};
    use std::io::{Read, Write};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

    const ENOSPC: i32 = 28;
    const EIO: i32 = 5;

    /// Counts down to the operation that fails, and then how many come after it.
    #[derive(Clone)]
    struct Fuse {
        left: Arc<AtomicI64>,
        errno: i32,
    }

    impl Fuse {
        fn burn(&self) -> io::Result<()> {
            match self.left.fetch_sub(1, Ordering::Relaxed) {
                1 => Err(io::Error::from_raw_os_error(self.errno)),
                _ => Ok(()),
            }
        }

        fn after(&self) -> i64 {
            -self.left.load(Ordering::Relaxed)
        }
    }

    /// A directory of which one operation fails.
    struct Faulty {
        directory: Directory,
        fuse: Fuse,
    }

    struct FaultyFile(<Directory as Files>::File, Fuse);

    impl Write for FaultyFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let burnt = self.1.burn();
            // What fails may have been written in part.
            let taken = self.0.write(&bytes[..if burnt.is_ok() { bytes.len() } else { bytes.len() / 2 }])?;
            burnt.map(|()| taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.1.burn()?;
            self.0.flush()
        }
    }

    impl Files for Faulty {
        type File = FaultyFile;

        fn names(&self) -> io::Result<Vec<String>> {
            self.fuse.burn()?;
            self.directory.names()
        }

        fn open(&self, name: &str) -> io::Result<(Box<dyn Read + '_>, u64)> {
            self.fuse.burn()?;
            self.directory.open(name)
        }

        fn create(&self, name: &str) -> io::Result<FaultyFile> {
            self.fuse.burn()?;
            Ok(FaultyFile(self.directory.create(name)?, self.fuse.clone()))
        }

        fn reuse(&self, old: &str, name: &str) -> io::Result<FaultyFile> {
            self.fuse.burn()?;
            Ok(FaultyFile(self.directory.reuse(old, name)?, self.fuse.clone()))
        }

        fn sync(&self, file: &mut FaultyFile) -> io::Result<()> {
            self.fuse.burn()?;
            self.directory.sync(&mut file.0)
        }

        fn finish(&self, file: &mut FaultyFile) -> io::Result<()> {
            self.fuse.burn()?;
            self.directory.finish(&mut file.0)
        }

        fn cut(&self, name: &str, len: u64) -> io::Result<()> {
            self.fuse.burn()?;
            self.directory.cut(name, len)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.fuse.burn()?;
            self.directory.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.fuse.burn()?;
            self.directory.remove(name)
        }

        fn sync_names(&self) -> io::Result<()> {
            self.fuse.burn()?;
            self.directory.sync_names()
        }
    }

    fn machine(restored: Restored) -> ClusterMachine {
        let osds = (1..3).map(|n| OsdSettings::new(Uuid([n; 16]), "v2:127.0.0.1:6800/0".parse().unwrap()));
        let settings = Settings {
            fsid: Uuid([7; 16]),
            mon: "v2:127.0.0.1:3300/0".parse().unwrap(),
            mgr: onego_msgr::addr::AddrVec::default(),
            osds: osds.collect(),
            memory_limit: 1 << 20,
            null_writes: false,
            pools: Vec::new(),
            cephx: None,
            compression: None,
            registrable: 0,
        };
        let mut machine = ClusterMachine::kept(settings, Keeping { restored, log_limit: 2000 });
        while let Some(action) = machine.next_action(Time::default()) {
            let Action::Listen { listener, addr } = action else { continue };
            machine.listening(Time::default(), listener, Ok(addr));
        }
        machine
    }

    /// Makes pools on a disk that fails at its `at`th operation. Returns how many were acknowledged, and why it ended, if
    /// it did.
    fn pools_on(path: &Path, fuse: &Fuse) -> (usize, Option<DataError>) {
        let directory = Directory::open(path).unwrap();
        let restored = Restored::load(&directory, None, 7).unwrap();
        let log = restored.log();
        let mut machine = machine(restored);
        let engine = onego_engine::open(EngineKind::Epoll).unwrap();
        let disk = match start(Faulty { directory, fuse: fuse.clone() }, log, &engine.waker()) {
            Ok(disk) => disk,
            Err(error) => return (0, Some(error)),
        };
        let (mut acknowledged, mut wanted, mut durable, mut checkpointing) = (0, 0, 0, false);
        for pool in 0..12 {
            machine.create_pool(Time::default(), &NewPool::new(format!("pool{pool}")));
            loop {
                while machine.has_job()
                    && let Some(job) = machine.next_job()
                {
                    match &job {
                        Job::Append(append) if append.sync => wanted = append.last,
                        Job::Append(_) => {}
                        Job::Checkpoint(_) => checkpointing = true,
                    }
                    disk.submit(job);
                }
                if durable >= wanted && !checkpointing {
                    break;
                }
                let done = match next_result(&disk) {
                    Ok(done) => done,
                    Err(error) => {
                        let before = fuse.after();
                        drop(disk);
                        // A checkpoint and the log have a thread each, and one may be in the middle of something.
                        assert!(checkpointing || fuse.after() == before, "something is tried after {error}");
                        return (acknowledged, Some(error));
                    }
                };
                match done {
                    Done::Durable(record) => durable = record,
                    Done::Checkpoint(_) => checkpointing = false,
                    Done::NoCheckpoint | Done::Reserve(_) => panic!("the disk is not full"),
                }
                machine.done(Time::default(), done);
            }
            acknowledged += 1;
        }
        (acknowledged, None)
    }

    /// A directory on a disk that is full at times.
    struct Full {
        directory: Directory,
        is_full: Arc<AtomicBool>,
    }

    impl Files for Full {
        type File = <Directory as Files>::File;

        fn names(&self) -> io::Result<Vec<String>> {
            self.directory.names()
        }

        fn open(&self, name: &str) -> io::Result<(Box<dyn Read + '_>, u64)> {
            self.directory.open(name)
        }

        fn create(&self, name: &str) -> io::Result<Self::File> {
            match name.starts_with("checkpoint") && self.is_full.load(Ordering::Relaxed) {
                // With a part of it, which is to be removed.
                true => {
                    self.directory.create(name).and(Err(io::Error::new(io::ErrorKind::StorageFull, "full")))
                }
                false => self.directory.create(name),
            }
        }

        fn reuse(&self, old: &str, name: &str) -> io::Result<Self::File> {
            match name.starts_with("checkpoint") {
                true => Err(io::ErrorKind::NotFound.into()),
                false => self.directory.reuse(old, name),
            }
        }

        fn sync(&self, file: &mut Self::File) -> io::Result<()> {
            self.directory.sync(file)
        }

        fn has_reserve(&self, _: &mut Self::File) -> bool {
            !self.is_full.load(Ordering::Relaxed)
        }

        fn finish(&self, file: &mut Self::File) -> io::Result<()> {
            self.directory.finish(file)
        }

        fn cut(&self, name: &str, len: u64) -> io::Result<()> {
            self.directory.cut(name, len)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.directory.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.directory.remove(name)
        }

        fn sync_names(&self) -> io::Result<()> {
            self.directory.sync_names()
        }
    }

    #[test]
    fn a_full_disk_makes_the_cluster_full_and_refuses_checkpoints_until_there_is_space() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(&folder.path().join("data")).unwrap();
        let path = directory.path().to_owned();
        let restored = Restored::load(&directory, None, 7).unwrap();
        let log = restored.log();
        let mut machine = machine(restored);
        let engine = onego_engine::open(EngineKind::Epoll).unwrap();
        let is_full = Arc::new(AtomicBool::new(false));
        let disk = start(Full { directory, is_full: Arc::clone(&is_full) }, log, &engine.waker()).unwrap();
        let mut pools = 0;
        // Makes pools, which lengthens the log, until that is done.
        let mut work = |machine: &mut ClusterMachine, until: fn(&Done) -> bool| loop {
            pools += 1;
            machine.create_pool(Time::default(), &NewPool::new(format!("pool{pools}")));
            while machine.has_job()
                && let Some(job) = machine.next_job()
            {
                disk.submit(job);
            }
            let done = next_result(&disk).unwrap();
            machine.done(Time::default(), done);
            if until(&done) {
                break;
            }
        };
        let is_marked = |machine: &ClusterMachine| {
            machine.osdmap().unwrap().pools.values().all(|pool| pool.has_flag(pool_flag::FULL))
        };
        is_full.store(true, Ordering::Relaxed);
        work(&mut machine, |done| matches!(done, Done::Reserve(false)));
        assert!(is_marked(&machine), "pools are full");
        work(&mut machine, |done| matches!(done, Done::NoCheckpoint));
        let is_part = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("checkpoint");
        assert!(!std::fs::read_dir(&path).unwrap().any(|entry| is_part(&entry.unwrap().file_name())));
        is_full.store(false, Ordering::Relaxed);
        work(&mut machine, |done| matches!(done, Done::Reserve(true)));
        assert!(!is_marked(&machine), "and are not any more");
        work(&mut machine, |done| matches!(done, Done::Checkpoint(_)));
        while machine.has_job()
            && let Some(job) = machine.next_job()
        {
            disk.submit(job);
        }
        drop(disk);
        let restored = Restored::load(&Directory::open(&path).unwrap(), None, 7).unwrap();
        assert_eq!(restored.kept.unwrap().maps.newest().pools.len(), pools);
    }

    fn next_result(disk: &Disk) -> Result<Done, DataError> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(result) = disk.result() {
                return result;
            }
            assert!(Instant::now() < end, "a job comes to no end");
            std::thread::yield_now();
        }
    }

    #[test]
    fn whichever_operation_fails_it_is_the_last_and_what_was_acknowledged_is_there() {
        for (errno, why) in [(ENOSPC, "No space left on device"), (EIO, "Input/output error")] {
            for at in 1.. {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("data");
                let fuse = Fuse { left: Arc::new(AtomicI64::new(at)), errno };
                let (acknowledged, error) = pools_on(&path, &fuse);
                let directory = Directory::open(&path).unwrap();
                let restored = Restored::load(&directory, None, 7).unwrap();
                let pools = restored.kept.map_or(0, |kept| kept.maps.newest().pools.len());
                assert!(pools >= acknowledged, "{pools} of {acknowledged} pools after operation {at}");
                let Some(error) = error else {
                    assert!(at > 40, "{at} operations");
                    break;
                };
                assert!(error.to_string().contains(why), "{error}");
            }
        }
    }
}
