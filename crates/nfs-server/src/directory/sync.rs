//! Syncs: they make changes durable before their replies.
//!
//! A change of a name syncs the directory, and a new file is synced itself, too: POSIX promises neither by the other, and
//! on journaling file systems the second finds its transaction committed. What cannot be opened for a sync (symbolic links
//! and special files, files that the server may not read) is synced with the whole file system.
//!
//! Calls that wait for a sync of one file share the next one ([`SharedSync`]).

use super::served::{Directory, File};
use super::system::{self, Identity, status};
use crate::file_system::Context;
use crate::procedures::inodes::Access;
use onego_nfs::v3::{FileType, Status, Verifier};
use onego_service::{SharedSync, SyncExtent};
use rustc_hash::FxHashMap;
use rustix::fd::OwnedFd;
use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Subject of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// A file, with its attributes or without.
    File(Identity),
    FileSystem,
}

/// The system calls. Tests record them, and make them fail.
pub(super) trait SyncCalls: Debug + Send + Sync {
    fn sync(&self, target: Target, fd: &OwnedFd, extent: SyncExtent) -> Result<(), Errno>;
}

#[derive(Debug)]
pub(super) struct SystemCalls;

impl SyncCalls for SystemCalls {
    fn sync(&self, target: Target, fd: &OwnedFd, extent: SyncExtent) -> Result<(), Errno> {
        match (target, extent) {
            (Target::FileSystem, _) => fs::syncfs(fd),
            (Target::File(_), SyncExtent::Data) => fs::fdatasync(fd),
            (Target::File(_), SyncExtent::All) => fs::fsync(fd),
        }
    }
}

/// The syncs of a directory, shared by all threads.
#[derive(Debug)]
pub(super) struct Syncs {
    calls: Box<dyn SyncCalls>,
    enabled: AtomicBool,
    verifier: AtomicU64,
    /// Syncs with calls that wait.
    waiting: Mutex<FxHashMap<Target, Arc<SharedSync<Errno>>>>,
}

impl Syncs {
    /// `verifier` must differ from that of every earlier start.
    pub(super) fn new(calls: Box<dyn SyncCalls>, verifier: Verifier) -> Self {
        let verifier = AtomicU64::new(u64::from_be_bytes(verifier));
        Self { calls, enabled: AtomicBool::new(true), verifier, waiting: Mutex::default() }
    }

    pub(super) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    pub(super) fn are_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    /// The write verifier. It changes when a sync fails: data that was written unstably may be lost, and the kernel says so
    /// to one caller only. Read it before an unstable write and after a sync.
    pub(super) fn verifier(&self) -> Verifier {
        self.verifier.load(Ordering::SeqCst).to_be_bytes()
    }

    fn waiting(&self) -> MutexGuard<'_, FxHashMap<Target, Arc<SharedSync<Errno>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a sync that begins after this call.
    fn wait_for(&self, target: Target, fd: &OwnedFd, extent: SyncExtent) -> Result<(), Errno> {
        if !self.are_enabled() {
            return Ok(());
        }
        let shared = Arc::clone(self.waiting().entry(target).or_default());
        let result = shared.run(extent, |extent| {
            self.calls.sync(target, fd, extent).inspect_err(|error| {
                self.verifier.fetch_add(1, Ordering::SeqCst);
                tracing::error!(%error, ?target, "a sync failed: clients are told to write unstable data again");
            })
        });
        let mut waiting = self.waiting();
        drop(shared);
        if waiting.get(&target).is_some_and(|shared| Arc::strong_count(shared) == 1) {
            waiting.remove(&target);
        }
        result
    }
}

impl Directory {
    /// Makes a file that is open at `fd` durable.
    pub(super) fn sync_open(&self, file: Identity, fd: &OwnedFd, extent: SyncExtent) -> Result<(), Status> {
        self.shared().syncs.wait_for(Target::File(file), fd, extent).map_err(status)
    }

    /// Makes a file's attributes and bytes durable, or a directory's names.
    pub(super) fn sync_file(&self, cx: Context<'_>, file: &File) -> Result<(), Status> {
        if !self.shared().syncs.are_enabled() {
            return Ok(());
        }
        match file.attributes.file_type {
            FileType::Regular | FileType::Directory => match self.descriptor(cx, file) {
                Ok(fd) => self.sync_open(file.identity, &fd, SyncExtent::All),
                // A server without privileges may not read every file that it may change.
                Err(Status::Access | Status::Perm) => self.sync_file_system(cx),
                Err(error) => Err(error),
            },
            _ => self.sync_file_system(cx),
        }
    }

    /// Makes a new name durable, and the new file. `was_changed`: the file was made and then changed, so that a sync of
    /// the directory need not cover it.
    pub(super) fn sync_new(
        &self,
        cx: Context<'_>,
        (dir, file): (&File, &File),
        was_changed: bool,
    ) -> Result<(), Status> {
        match file.attributes.file_type {
            FileType::Directory => self.sync_file(cx, file)?,
            FileType::Regular => {}
            // Made in the transaction that gave it its name.
            _ if was_changed => return self.sync_file_system(cx),
            _ => {}
        }
        self.sync_file(cx, dir)
    }

    /// Makes everything durable that any process has changed.
    fn sync_file_system(&self, cx: Context<'_>) -> Result<(), Status> {
        let fd = self.open_root_to_sync(cx)?;
        self.shared().syncs.wait_for(Target::FileSystem, &fd, SyncExtent::All).map_err(status)
    }

    fn open_root_to_sync(&self, cx: Context<'_>) -> Result<Arc<OwnedFd>, Status> {
        let root = &self.shared().synced_root;
        if let Some(fd) = root.get() {
            return Ok(Arc::clone(fd));
        }
        let fd = self.open_to_sync(cx, &self.shared().root_fd)?;
        Ok(Arc::clone(root.get_or_init(|| fd)))
    }

    fn open_to_sync(&self, cx: Context<'_>, fd: &OwnedFd) -> Result<Arc<OwnedFd>, Status> {
        self.as_server(cx, || system::reopen(fd, OFlags::RDONLY).map(Arc::new).map_err(status))
    }

    /// A descriptor by which a regular file or a directory is synced: that by which it was written, if it is still open.
    fn descriptor(&self, cx: Context<'_>, file: &File) -> Result<Arc<OwnedFd>, Status> {
        if file.identity == self.shared().root {
            return self.open_root_to_sync(cx);
        }
        let kept = |access| self.table().data(file.identity, access);
        if let Some(fd) = kept(Access::Write).or_else(|| kept(Access::Read)) {
            return Ok(fd);
        }
        let fd = self.open_to_sync(cx, &file.fd)?;
        if file.is_dir() {
            // Most changes of names are followed by others in the same directory.
            self.table().keep_data(file.identity, Access::Read, Arc::clone(&fd));
        }
        Ok(fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Caller;
    use crate::job::{Job, Work};
    use crate::operations::CountedCall;
    use crate::workers::Workers;
    use onego_buf::{List, Pool};
    use onego_engine::{Engine as _, EngineKind};
    use onego_nfs::rpc::Procedure;
    use onego_nfs::v3::{self, Handle, MkdirArgs, Place, SetAttributes};
    use onego_nfs::xdr::{Body as _, Writer};
    use onego_wire::Time;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    /// Syncs that take until the test says that they are over, and fail as it says.
    #[derive(Debug)]
    struct Held {
        begun: mpsc::Sender<SyncExtent>,
        results: Mutex<mpsc::Receiver<Result<(), Errno>>>,
    }

    impl SyncCalls for Held {
        fn sync(&self, _: Target, _: &OwnedFd, extent: SyncExtent) -> Result<(), Errno> {
            self.begun.send(extent).unwrap();
            self.results.lock().unwrap().recv().unwrap()
        }
    }

    /// A call of this process's user.
    fn job<P: Procedure>(args: &P::Args) -> Job {
        let (mut front, now) = (Writer::new(), Time::default());
        args.write(&mut front, &mut List::new());
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let caller = Caller { uid, gid, groups: Vec::new() };
        let arguments = front.as_slice().to_vec().into();
        let work = Work::Call { procedure: P::NUMBER, read_only: false, arguments, payload: List::new() };
        Job { conn: None, xid: 1, caller, now, asked: CountedCall::nfs(now, P::NUMBER, 0), key: None, work }
    }

    #[test]
    fn a_sync_that_takes_long_holds_up_no_call_without_one() {
        let ((begun, begins), (end, results)) = (mpsc::channel(), mpsc::channel());
        let syncs = Syncs::new(Box::new(Held { begun, results: Mutex::new(results) }), [1; 8]);
        let folder = tempfile::tempdir().unwrap();
        let fs = Directory::open_with(folder.path(), &[5; 32], syncs, Pool::new(1 << 20)).unwrap();
        let engine = onego_engine::open(EngineKind::Epoll).unwrap();
        let workers = Workers::start(&fs, &engine.waker()).unwrap();
        let root: Handle = fs.shared().handles.root();
        for n in 0..20 {
            let place = Place { dir: root, name: format!("dir {n}").as_str().into() };
            workers.submit(job::<v3::Mkdir>(&MkdirArgs { place, attributes: SetAttributes::default() }));
        }
        assert_eq!(begins.recv(), Ok(SyncExtent::All));
        (0..20).for_each(|_| workers.submit(job::<v3::Getattr>(&root)));
        let next = || {
            let deadline = Instant::now() + Duration::from_secs(60);
            std::iter::repeat_with(|| workers.result())
                .take_while(|_| Instant::now() < deadline)
                .flatten()
                .next()
                .expect("a call waits for a sync that it does not need")
        };
        (0..20).for_each(|_| assert!(next().front.as_slice().len() > 100, "attributes"));
        // One sync for each new directory, and at most one for its name.
        (0..40).for_each(|_| end.send(Ok(())).unwrap());
        (0..20).for_each(|_| drop(next()));
        assert!(fs.shared().syncs.waiting().is_empty());
    }
}
