//! The directory that is served, and the files that were found in it.

use super::handles::{Handles, Named};
use super::sync::{Syncs, SystemCalls};
use super::system::{self, Identity, status};
use super::table::{self, DEPTH_MAX, Found, Table, Way};
use crate::caller::Caller;
use crate::file_system::Context;
use onego_buf::Pool;
use onego_engine::FileHandle;
use onego_engine::credentials::{self, Credentials};
use onego_nfs::v3::{Attributes, FileType, Handle, SetAttributes, Status};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{self, Mode, OFlags};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Most files that are open at a time, if the limit of the process allows.
const OPEN_MAX: usize = 16 << 10;

/// A directory of this machine as a file system. A clone is the same: each thread may have one.
///
/// A thread that carries out a call takes the caller's credentials for files, and keeps them until the next call (see
/// [`onego_engine::credentials::assume`] for what else changes). Give it threads that do nothing else with files.
#[derive(Debug, Clone)]
pub struct Directory(pub(super) Arc<Shared>);

/// What all clones share.
#[derive(Debug)]
pub(super) struct Shared {
    table: Mutex<Table>,
    pub(super) root: Identity,
    pub(super) root_fd: Arc<OwnedFd>,
    pub(super) handles: Handles,
    pub(super) syncs: Syncs,
    /// The root, opened for the first sync.
    pub(super) synced_root: OnceLock<Arc<OwnedFd>>,
    /// Do threads take the credentials of callers? If not, the server's user does everything.
    pub(super) switches: bool,
    /// The user of the server.
    own_uid: u32,
    pub(super) pool: Pool,
}

/// A file that a call has found, open as a place, and its attributes then.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(super) identity: Identity,
    pub(super) fd: Arc<OwnedFd>,
    pub(super) attributes: Attributes,
}

impl File {
    pub(super) fn is_dir(&self) -> bool {
        self.attributes.file_type == FileType::Directory
    }

    /// Does the system let the thread use the file in that way?
    pub(super) fn may(&self, access: fs::Access) -> bool {
        credentials::may_access(self.fd.as_fd(), access).is_ok()
    }

    /// The attributes at this moment.
    pub(super) fn now(&self) -> Result<Attributes, Status> {
        system::stat(&self.fd).map(|stat| stat.attributes).map_err(status)
    }
}

impl Directory {
    /// Opens a directory. `verifier` is another at each start; memory for what is read comes from `pool`. Handles are
    /// signed with `key`, which nobody else may know: under another key all but the root's are stale.
    pub fn open(path: &Path, key: &[u8; 32], verifier: [u8; 8], pool: Pool) -> io::Result<Self> {
        Self::open_with(path, key, Syncs::new(Box::new(SystemCalls), verifier), pool)
    }

    /// The same with other system calls for syncs.
    pub(super) fn open_with(path: &Path, key: &[u8; 32], syncs: Syncs, pool: Pool) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = Arc::new(fs::open(path, flags, Mode::empty())?);
        let root = system::stat(&fd)?.identity;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let handles = Handles::new(root, &fd, key);
        // One quarter is for places, one for files that are read and written, and the rest for connections and calls.
        let table = Mutex::new(Table::new(root, Arc::clone(&fd), OPEN_MAX.min(limit / 4)));
        let synced_root = OnceLock::new();
        let switches = credentials::can_switch();
        let own_uid = rustix::process::geteuid().as_raw();
        Ok(Self(Arc::new(Shared {
            table,
            root,
            root_fd: fd,
            handles,
            syncs,
            synced_root,
            switches,
            own_uid,
            pool,
        })))
    }

    /// Enables or disables syncs before replies (enabled by default). Without them a crash of the machine loses changes that
    /// were acknowledged, also stable writes and those before a COMMIT, as with `async` of exports(5).
    pub fn with_sync(self, sync: bool) -> Self {
        self.0.syncs.enable(sync);
        self
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Do calls have the rights of their callers? If not, all have those of the server's user.
    pub(crate) fn acts_as_callers(&self) -> bool {
        self.0.switches
    }

    pub(crate) fn syncs_changes(&self) -> bool {
        self.0.syncs.are_enabled()
    }

    /// The user whose rights a call has.
    pub(super) fn acting_uid(&self, cx: Context<'_>) -> u32 {
        if self.0.switches { cx.caller.uid } else { self.0.own_uid }
    }

    /// Is the caller exempt from permissions?
    pub(super) fn overrides(&self, cx: Context<'_>) -> bool {
        self.0.switches && cx.caller.is_root()
    }

    /// Takes the caller's credentials.
    pub(super) fn act_as(&self, cx: Context<'_>) -> Result<(), Status> {
        let Caller { uid, gid, ref groups } = *cx.caller;
        self.assume(Credentials::User { uid, gid, groups, overrides: self.overrides(cx) })
    }

    /// Takes the credentials under which a new file gets the owners that `set` names, if the caller may choose them.
    pub(super) fn act_as_owner(&self, cx: Context<'_>, set: &SetAttributes) -> Result<(), Status> {
        if !self.overrides(cx) || (set.uid, set.gid) == (None, None) {
            // As with knfsd, the owners that other callers ask for do not count.
            return Ok(());
        }
        // It belongs to them at once, so that nothing is given away later, by a name that may lead elsewhere by then.
        let (uid, gid) = (set.uid.unwrap_or(cx.caller.uid), set.gid.unwrap_or(cx.caller.gid));
        self.assume(Credentials::User { uid, gid, groups: &cx.caller.groups, overrides: true })
    }

    fn assume(&self, user: Credentials<'_>) -> Result<(), Status> {
        let wanted = if self.0.switches { user } else { Credentials::ProcessUser };
        credentials::assume(wanted).map_err(|error| {
            tracing::debug!(%error, ?wanted, "a call is refused: its credentials cannot be taken");
            Status::Access
        })
    }

    /// Does something with the server's own credentials, and takes the caller's again.
    pub(super) fn as_server<T>(
        &self,
        cx: Context<'_>,
        act: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        credentials::assume(Credentials::Process).map_err(|_| Status::Access)?;
        let result = act();
        self.act_as(cx)?;
        result
    }

    /// Are handles valid for as long as their files exist, also after a restart of the server?
    pub(crate) fn handles_last(&self) -> bool {
        self.0.handles.last()
    }

    /// Closes the files that were not used since the last call.
    pub fn sweep(&self) {
        let closed = self.table().sweep();
        // Closing takes time. The lock is free by then.
        drop(closed);
    }

    /// A thread that panics with the lock leaves a whole table behind.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn handle_of(&self, file: &File) -> Handle {
        self.0.handles.give(file.identity, &file.fd)
    }

    /// The file that a handle names. The thread has the caller's credentials from here on. A client with a handle has been
    /// let through the directories above the file.
    pub(super) fn file_of(&self, cx: Context<'_>, handle: &Handle) -> Result<File, Status> {
        self.act_as(cx)?;
        let Named { identity, system } = self.0.handles.read(handle)?;
        let found = self.table().find(identity);
        let fd = match found {
            Found::Open(fd) => fd,
            Found::Names(start, names) => {
                let fd = self.as_server(cx, || table::walk(start, names))?;
                self.table().keep(identity, Arc::clone(&fd), None);
                fd
            }
            Found::Nothing => {
                let system = system.ok_or(Status::Stale)?;
                return self.open_again(cx, identity, &system);
            }
        };
        let stat = system::stat(&fd).map_err(status)?;
        let file = File { identity, fd, attributes: stat.attributes };
        self.check_there(cx, file)
    }

    /// Opens a file by the handle that the system has given for it.
    fn open_again(&self, cx: Context<'_>, identity: Identity, handle: &FileHandle) -> Result<File, Status> {
        let fd = Arc::new(self.as_server(cx, || self.0.handles.open(handle))?);
        let stat = system::stat(&fd).map_err(status)?;
        if stat.identity != identity {
            return Err(Status::Stale);
        }
        let file = self.check_there(cx, File { identity, fd, attributes: stat.attributes })?;
        self.table().keep(identity, Arc::clone(&file.fd), None);
        Ok(file)
    }

    /// A file that was removed is stale. So is a directory that was moved out of the one that is served: its files may never
    /// have been here. (A file may have another name inside.)
    fn check_there(&self, cx: Context<'_>, file: File) -> Result<File, Status> {
        let is_there = file.attributes.links > 0 && (!file.is_dir() || self.is_below(cx, &file)?);
        if is_there {
            Ok(file)
        } else {
            self.table().forget(file.identity);
            Err(Status::Stale)
        }
    }

    pub(super) fn open_root(&self, cx: Context<'_>) -> Result<File, Status> {
        self.file_of(cx, &self.0.handles.root())
    }

    /// The directory that a directory is in. The root is in the root.
    pub(super) fn up(&self, cx: Context<'_>, dir: &File) -> Result<File, Status> {
        if dir.identity == self.0.root {
            return self.open_root(cx);
        }
        let fd = Arc::new(system::open_parent(&dir.fd).map_err(status)?);
        let stat = system::stat(&fd).map_err(status)?;
        let parent = File { identity: stat.identity, fd, attributes: stat.attributes };
        // It was moved out meanwhile.
        if self.is_below(cx, &parent)? { Ok(parent) } else { self.open_root(cx) }
    }

    /// Is it the directory that is served, or one in it?
    fn is_below(&self, cx: Context<'_>, dir: &File) -> Result<bool, Status> {
        if dir.identity == self.0.root || self.has_path_below(&dir.fd) {
            return Ok(true);
        }
        // A path may be too long for the system. And directories on the way may be closed to the caller.
        self.as_server(cx, || Ok(self.is_inside(&dir.fd, dir.identity)))
    }

    /// Is the path of a directory that of the root and more? Both are on one mount, on which no two directories have one
    /// path at a time.
    fn has_path_below(&self, dir: &OwnedFd) -> bool {
        let (Ok(root), Ok(path)) = (system::path(&self.0.root_fd), system::path(dir)) else { return false };
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        path.strip_prefix(root).is_some_and(|rest| rest.len() > 1 && rest[0] == b'/')
    }

    /// Is the root one of the directories above a directory?
    fn is_inside(&self, dir: &OwnedFd, identity: Identity) -> bool {
        let (mut above, mut at) = (None, identity);
        for _ in 0..DEPTH_MAX {
            if at == self.0.root {
                return true;
            }
            // Above the file system's own root there is another file system, or the same root.
            let Ok(parent) = system::open_parent(above.as_ref().unwrap_or(dir)) else { return false };
            let Ok(stat) = system::stat(&parent) else { return false };
            if stat.identity == at {
                return false;
            }
            (above, at) = (Some(parent), stat.identity);
        }
        false
    }

    /// The file that has a name in a directory.
    pub(super) fn file_at(&self, dir: &File, name: &[u8]) -> Result<File, Status> {
        let place = system::open_entry(&dir.fd, name).map_err(status)?;
        self.found(dir, name, place)
    }

    /// A file that has a name in a directory, open as a place.
    pub(super) fn found(&self, dir: &File, name: &[u8], place: OwnedFd) -> Result<File, Status> {
        let fd = Arc::new(place);
        let stat = system::stat(&fd).map_err(status)?;
        let way = || Way { parent: dir.identity, name: name.to_vec() };
        let way = (!self.handles_last()).then(way);
        self.table().keep(stat.identity, Arc::clone(&fd), way);
        Ok(File { identity: stat.identity, fd, attributes: stat.attributes })
    }
}
