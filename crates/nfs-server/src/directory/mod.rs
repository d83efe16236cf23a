//! A directory of this machine as a file system.
//!
//! Files are reached by names in directories that are open, one name at a time, and none is followed or opened but as a
//! place (`system`), so that no link and no ".." leads out of the directory. What is known of a file is asked of the
//! system at each call: others may work on the directory, too. That is why nothing is said of files before a change.
//!
//! Handles are signed (`handles`) and last for as long as their files, where the system lets us open files by handles;
//! descriptors of what was used lately are kept (`table`). Files in file systems that are mounted below are not given.
//!
//! The system decides what callers may do: for each call the thread takes the caller's user, group and groups
//! ([`credentials`]), so that permission bits, ACLs, sticky directories, hard links, quotas, and the bits that a change
//! clears mean here what they mean to a local user, and new files belong to the caller from the start. The server's own
//! credentials are used only to find what a handle names (`as_server`), and for data where RFC 1813 wants more than the
//! permission bits give (`data`). A server that cannot change credentials acts as its own user for everybody.

mod data;
mod handles;
pub(super) mod key;
mod listing;
mod names;
mod system;
mod table;
#[cfg(test)]
mod tests;

use super::budget::LISTING_MAX;
use super::file_system::{Context, FileSystem, Results};
use super::memory::TRANSFER_MAX;
use super::name::NAME_MAX;
use super::rights::{Caller, check_values};
use handles::{Handles, Named};
use onego_buf::{Pool, SegmentMut};
use onego_engine::FileHandle;
use onego_engine::credentials::{self, Credentials};
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, Attributes, Change, Failed, FileType, FsinfoOk, FsstatOk, Handle, PathconfOk, SetAttributes,
    SetTime, Status, access, properties,
};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{self, AtFlags, Mode, OFlags, Timespec, Timestamps};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use system::{Identity, status};
use table::{Access, DEPTH_MAX, Found, Table};

/// Files that are open at a time, if the limit of the process allows.
const OPEN_MAX: usize = 16 << 10;

/// Most hard links that are promised: what ext4 has.
const LINK_MAX: u32 = 65_000;

/// All bits of a mode that a client may set.
const MODE_BITS: u32 = 0o7777;

/// A directory of this machine as a file system. A clone is the same: each thread may have one.
///
/// A thread that carries out a call takes the caller's credentials for files, and keeps them until the next call (see
/// [`onego_engine::credentials::assume`] for what else changes). Give it threads that do nothing else with files.
#[derive(Debug, Clone)]
pub struct Directory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    root: Identity,
    root_fd: Arc<OwnedFd>,
    handles: Handles,
    /// Another at each start: what was not committed may be lost then.
    verifier: [u8; 8],
    /// Do threads take the credentials of callers? If not, the server's user does everything.
    switches: bool,
    /// The user of the server.
    own_uid: u32,
    pool: Pool,
}

/// A file that is there.
#[derive(Debug, Clone)]
struct File {
    identity: Identity,
    fd: Arc<OwnedFd>,
    attributes: Attributes,
}

impl File {
    fn is_dir(&self) -> bool {
        self.attributes.file_type == FileType::Directory
    }

    fn demand_directory(&self) -> Result<(), Status> {
        if self.is_dir() { Ok(()) } else { Err(Status::Notdir) }
    }

    /// Does the system let the thread use the file so?
    fn may(&self, access: fs::Access) -> bool {
        credentials::may_access(self.fd.as_fd(), access).is_ok()
    }
}

impl Directory {
    /// Opens a directory. `verifier` is another at each start; memory for what is read comes from `pool`. Handles are
    /// signed with `key`, which nobody else may know: under another key all but the root's are stale.
    pub fn open(path: &Path, key: &[u8; 32], verifier: [u8; 8], pool: Pool) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = Arc::new(fs::open(path, flags, Mode::empty())?);
        let root = system::stat(&fd)?.identity;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let handles = Handles::new(root, &fd, key);
        // A quarter for places, one for what is read and written; the others are for connections and calls in work.
        let table = Mutex::new(Table::new(root, Arc::clone(&fd), OPEN_MAX.min(limit / 4)));
        let switches = credentials::can_switch();
        let own_uid = rustix::process::geteuid().as_raw();
        Ok(Self(Arc::new(Shared { table, root, root_fd: fd, handles, verifier, switches, own_uid, pool })))
    }

    /// Do calls have the rights of their callers? If not, all have those of the server's user.
    pub(super) fn acts_as_callers(&self) -> bool {
        self.0.switches
    }

    /// The user whose rights a call has.
    fn acting_uid(&self, cx: Context<'_>) -> u32 {
        if self.0.switches { cx.caller.uid } else { self.0.own_uid }
    }

    /// Is the caller bound by no permissions?
    fn overrides(&self, cx: Context<'_>) -> bool {
        self.0.switches && cx.caller.is_root()
    }

    /// Takes the caller's credentials.
    fn act_as(&self, cx: Context<'_>) -> Result<(), Status> {
        let Caller { uid, gid, ref groups } = *cx.caller;
        self.assume(Credentials::User { uid, gid, groups, overrides: self.overrides(cx) })
    }

    /// Takes the credentials under which a new file belongs to those who `set` names, if the caller may choose.
    fn act_as_owner(&self, cx: Context<'_>, set: &SetAttributes) -> Result<(), Status> {
        if !self.overrides(cx) || (set.uid, set.gid) == (None, None) {
            // As knfsd does: the owners that others ask for are not looked at.
            return Ok(());
        }
        // It belongs to them at once, so that nothing has to be given away by a name that may lead elsewhere by then.
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
    fn as_server<T>(&self, cx: Context<'_>, act: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
        credentials::assume(Credentials::Process).map_err(|_| Status::Access)?;
        let result = act();
        self.act_as(cx)?;
        result
    }

    /// Are handles good for as long as their files are there, whatever becomes of the server?
    pub(super) fn handles_last(&self) -> bool {
        self.0.handles.last()
    }

    /// Closes what was not used since this was called last.
    pub fn sweep(&self) {
        let closed = self.table().sweep();
        // It takes its time, which nobody has to wait for.
        drop(closed);
    }

    /// A thread that panics with the lock leaves a whole table behind.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, file: &File) -> Handle {
        self.0.handles.give(file.identity, &file.fd)
    }

    /// The file that a handle names. The thread has the caller's credentials from here on; to have a handle is to have
    /// been let through the directories above the file.
    fn find(&self, cx: Context<'_>, handle: &Handle) -> Result<File, Status> {
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

    /// A file that was removed is stale. So is a directory that was moved out of the one that is served: what is in it now
    /// need never have been here. (A file may have another name inside.)
    fn check_there(&self, cx: Context<'_>, file: File) -> Result<File, Status> {
        let is_there = file.attributes.links > 0 && (!file.is_dir() || self.is_below(cx, &file)?);
        if is_there {
            Ok(file)
        } else {
            self.table().forget(file.identity);
            Err(Status::Stale)
        }
    }

    fn root(&self, cx: Context<'_>) -> Result<File, Status> {
        self.find(cx, &self.0.handles.root())
    }

    /// The directory that a directory is in. The root is in the root.
    fn up(&self, cx: Context<'_>, dir: &File) -> Result<File, Status> {
        if dir.identity == self.0.root {
            return self.root(cx);
        }
        let fd = Arc::new(system::open_parent(&dir.fd).map_err(status)?);
        let stat = system::stat(&fd).map_err(status)?;
        let parent = File { identity: stat.identity, fd, attributes: stat.attributes };
        // It was moved out this very moment.
        if self.is_below(cx, &parent)? { Ok(parent) } else { self.root(cx) }
    }

    /// Is a directory in the one that is served, or is it that?
    fn is_below(&self, cx: Context<'_>, dir: &File) -> Result<bool, Status> {
        if dir.identity == self.0.root || self.has_path_below(&dir.fd) {
            return Ok(true);
        }
        // A path may be too long to be told. And directories on the way may be closed to the caller.
        self.as_server(cx, || Ok(self.is_inside(&dir.fd, dir.identity)))
    }

    /// Is the path of a directory that of the root and more? Both are on one mount, on which no two directories have one
    /// path at a time.
    fn has_path_below(&self, dir: &OwnedFd) -> bool {
        let (Ok(root), Ok(path)) = (system::path(&self.0.root_fd), system::path(dir)) else { return false };
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        path.strip_prefix(root).is_some_and(|rest| rest.len() > 1 && rest[0] == b'/')
    }

    /// The same by the directories above it, one after the other.
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

    /// What has a name in a directory.
    fn entry(&self, dir: &File, name: &[u8]) -> Result<File, Status> {
        let place = system::open_entry(&dir.fd, name).map_err(status)?;
        self.found(dir, name, place)
    }

    /// Attributes as they are now.
    fn now(&self, file: &File) -> Option<Attributes> {
        system::stat(&file.fd).ok().map(|stat| stat.attributes)
    }

    /// Does something with a file, and tells its attributes whether it goes well or not.
    fn with<T>(
        &self,
        cx: Context<'_>,
        handle: &Handle,
        act: impl FnOnce(&File) -> Result<T, Status>,
    ) -> Result<(Option<Attributes>, T), Failed<Option<Attributes>>> {
        let file = self.find(cx, handle).map_err(|status| Failed { status, more: None })?;
        match act(&file) {
            Ok(value) => Ok((Some(file.attributes), value)),
            Err(status) => Err(Failed { status, more: Some(file.attributes) }),
        }
    }

    /// Changes a file, or what is in a directory, and tells what it is afterwards.
    fn change<T>(
        &self,
        cx: Context<'_>,
        handle: &Handle,
        act: impl FnOnce(&File) -> Result<T, Status>,
    ) -> Result<(Change, T), Failed<Change>> {
        let file = self.find(cx, handle).map_err(|status| Failed { status, more: Change::default() })?;
        let result = act(&file);
        let change = Change { before: None, after: self.now(&file) };
        match result {
            Ok(value) => Ok((change, value)),
            Err(status) => Err(Failed { status, more: change }),
        }
    }

    /// SETATTR, as far as the system lets the caller.
    fn set_attributes(&self, cx: Context<'_>, file: &File, set: &SetAttributes) -> Result<(), Status> {
        check_values(set)?;
        let mut set = *set;
        if let Some(size) = set.size {
            match file.attributes.file_type {
                FileType::Regular => {}
                FileType::Directory => return Err(Status::Isdir),
                _ => return Err(Status::Inval),
            }
            let io = self.open_data(cx, file, Access::Write)?;
            fs::ftruncate(&io, size).map_err(status)?;
            if set.mtime == SetTime::ServerTime {
                // It has that by now, also if the caller is not the owner.
                set.mtime = SetTime::Leave;
            }
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.map(fs::Uid::from_raw), set.gid.map(fs::Gid::from_raw));
            let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
            fs::chownat(&file.fd, c"", uid, gid, flags).map_err(status)?;
        }
        if let Some(bits) = set.mode {
            self.set_mode(file, bits)?;
        }
        self.set_times(cx, file, set.atime, set.mtime)
    }

    fn set_times(
        &self,
        cx: Context<'_>,
        file: &File,
        mut atime: SetTime,
        mut mtime: SetTime,
    ) -> Result<(), Status> {
        let wanted = [atime, mtime];
        if wanted == [SetTime::Leave; 2] {
            return Ok(());
        }
        let given = wanted.iter().any(|time| matches!(time, SetTime::To(_)));
        if !given && self.acting_uid(cx) != file.attributes.uid {
            // Who may only write to a file may set both times to now, and the system lets nobody else set one.
            (atime, mtime) = (SetTime::ServerTime, SetTime::ServerTime);
        }
        let path = system::reopen_path(&file.fd);
        fs::utimensat(system::ANYWHERE, path, &timestamps(atime, mtime), AtFlags::empty()).map_err(status)
    }

    fn set_mode(&self, file: &File, bits: u32) -> Result<(), Status> {
        match fs::chmod(system::reopen_path(&file.fd), Mode::from_raw_mode(bits & MODE_BITS)) {
            // Links have no permissions of their own.
            Err(_) if file.attributes.file_type == FileType::Symlink => Ok(()),
            result => result.map_err(status),
        }
    }

    /// The answer to ACCESS (RFC 1813, section 3.3.4).
    fn access_of(&self, file: &File, wanted: u32) -> u32 {
        let directory = file.is_dir();
        let write = access::MODIFY | access::EXTEND | if directory { access::DELETE } else { 0 };
        let execute = if directory { access::LOOKUP } else { access::EXECUTE };
        let uses = [
            (fs::Access::READ_OK, access::READ),
            (fs::Access::WRITE_OK, write),
            (fs::Access::EXEC_OK, execute),
        ];
        let granted = uses.into_iter().filter(|(way, bits)| wanted & bits != 0 && file.may(*way));
        granted.fold(0, |granted, (_, bits)| granted | bits) & wanted
    }
}

fn timestamps(atime: SetTime, mtime: SetTime) -> Timestamps {
    Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) }
}

fn timespec(set: SetTime) -> Timespec {
    match set {
        SetTime::Leave => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        SetTime::ServerTime => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        SetTime::To(to) => Timespec { tv_sec: to.seconds.into(), tv_nsec: to.nanoseconds.into() },
    }
}

impl FileSystem for Directory {
    fn mount(&mut self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        self.walk(cx, path)
    }

    fn place(&mut self, len: usize) -> Option<SegmentMut> {
        Some(self.0.pool.get(len))
    }

    fn getattr(&mut self, cx: Context<'_>, file: Handle) -> Results<v3::Getattr> {
        let file = self.find(cx, &file).map_err(|status| Failed { status, more: () })?;
        Ok(file.attributes)
    }

    fn setattr(&mut self, cx: Context<'_>, args: v3::SetattrArgs) -> Results<v3::Setattr> {
        let set = |file: &File| {
            if args.guard.is_some_and(|ctime| ctime != file.attributes.ctime) {
                return Err(Status::NotSync);
            }
            self.set_attributes(cx, file, &args.attributes)
        };
        self.change(cx, &args.file, set).map(|(change, ())| change)
    }

    fn lookup(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Lookup> {
        let (dir, file) = self.with(cx, &place.dir, |dir| self.look_up(cx, dir, &place.name.0))?;
        Ok(v3::LookupOk { file: self.handle(&file), attributes: Some(file.attributes), dir })
    }

    fn access(&mut self, cx: Context<'_>, args: v3::AccessArgs) -> Results<v3::Access> {
        let (attributes, granted) =
            self.with(cx, &args.file, |file| Ok(self.access_of(file, args.wanted)))?;
        Ok(v3::AccessOk { attributes, granted })
    }

    fn readlink(&mut self, cx: Context<'_>, link: Handle) -> Results<v3::Readlink> {
        let (attributes, path) = self.with(cx, &link, |link| match link.attributes.file_type {
            FileType::Symlink => fs::readlinkat(&link.fd, c"", Vec::new()).map_err(status),
            _ => Err(Status::Inval),
        })?;
        Ok(v3::ReadlinkOk { attributes, path: path.into_bytes() })
    }

    fn read(&mut self, cx: Context<'_>, args: v3::ReadArgs) -> Results<v3::Read> {
        let (attributes, (data, eof)) =
            self.with(cx, &args.file, |file| self.read_data(cx, file, args.offset, args.count))?;
        Ok(v3::ReadOk { attributes, eof, data })
    }

    fn write(&mut self, cx: Context<'_>, args: v3::WriteArgs) -> Results<v3::Write> {
        let write = |file: &File| self.write_data(cx, file, args.offset, args.stable, &args.data);
        let (file, count) = self.change(cx, &args.file, write)?;
        Ok(v3::WriteOk { file, count, committed: args.stable, verifier: self.0.verifier })
    }

    fn create(&mut self, cx: Context<'_>, args: v3::CreateArgs) -> Results<v3::Create> {
        let (dir, file) = self
            .change(cx, &args.place.dir, |dir| self.create_regular(cx, dir, &args.place.name.0, &args.how))?;
        Ok(self.created(&file, dir))
    }

    fn mkdir(&mut self, cx: Context<'_>, args: v3::MkdirArgs) -> Results<v3::Mkdir> {
        let (dir, file) = self.change(cx, &args.place.dir, |dir| {
            self.make_directory(cx, dir, &args.place.name.0, &args.attributes)
        })?;
        Ok(self.created(&file, dir))
    }

    fn symlink(&mut self, cx: Context<'_>, args: v3::SymlinkArgs) -> Results<v3::Symlink> {
        let (dir, file) = self.change(cx, &args.place.dir, |dir| self.make_link(cx, dir, &args))?;
        Ok(self.created(&file, dir))
    }

    fn mknod(&mut self, cx: Context<'_>, args: v3::MknodArgs) -> Results<v3::Mknod> {
        let (dir, file) = self
            .change(cx, &args.place.dir, |dir| self.make_special(cx, dir, &args.place.name.0, &args.what))?;
        Ok(self.created(&file, dir))
    }

    fn remove(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Remove> {
        self.change(cx, &place.dir, |dir| self.unlink(cx, dir, &place.name.0)).map(|(change, ())| change)
    }

    fn rmdir(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Rmdir> {
        self.change(cx, &place.dir, |dir| self.unlink_directory(cx, dir, &place.name.0))
            .map(|(change, ())| change)
    }

    fn rename(&mut self, cx: Context<'_>, args: v3::RenameArgs) -> Results<v3::Rename> {
        self.move_entry(cx, &args.from, &args.to)
    }

    fn link(&mut self, cx: Context<'_>, args: v3::LinkArgs) -> Results<v3::Link> {
        self.add_link(cx, &args.file, &args.link)
    }

    fn readdir(&mut self, cx: Context<'_>, args: v3::ReaddirArgs) -> Results<v3::Readdir> {
        self.list(cx, &args)
    }

    fn readdirplus(&mut self, cx: Context<'_>, args: v3::ReaddirplusArgs) -> Results<v3::Readdirplus> {
        self.list_plus(cx, &args)
    }

    fn fsstat(&mut self, cx: Context<'_>, root: Handle) -> Results<v3::Fsstat> {
        let (attributes, stat) = self.with(cx, &root, |file| fs::fstatvfs(&file.fd).map_err(status))?;
        Ok(FsstatOk {
            attributes,
            total_bytes: stat.f_blocks * stat.f_frsize,
            free_bytes: stat.f_bfree * stat.f_frsize,
            available_bytes: stat.f_bavail * stat.f_frsize,
            total_files: stat.f_files,
            free_files: stat.f_ffree,
            available_files: stat.f_favail,
            invariant_seconds: 0,
        })
    }

    fn fsinfo(&mut self, cx: Context<'_>, root: Handle) -> Results<v3::Fsinfo> {
        const PAGE: u32 = 4096;
        let (attributes, ()) = self.with(cx, &root, |_| Ok(()))?;
        let transfer = TRANSFER_MAX as u32;
        Ok(FsinfoOk {
            attributes,
            read_max: transfer,
            read_preferred: transfer,
            read_multiple: PAGE,
            write_max: transfer,
            write_preferred: transfer,
            write_multiple: PAGE,
            readdir_preferred: LISTING_MAX,
            file_max: i64::MAX as u64,
            time_delta: v3::Time { seconds: 0, nanoseconds: 1 },
            properties: properties::LINK
                | properties::SYMLINK
                | properties::HOMOGENEOUS
                | properties::CAN_SET_TIME,
        })
    }

    fn pathconf(&mut self, cx: Context<'_>, file: Handle) -> Results<v3::Pathconf> {
        let (attributes, ()) = self.with(cx, &file, |_| Ok(()))?;
        Ok(PathconfOk {
            attributes,
            link_max: LINK_MAX,
            name_max: NAME_MAX as u32,
            no_trunc: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        })
    }

    fn commit(&mut self, cx: Context<'_>, args: v3::CommitArgs) -> Results<v3::Commit> {
        let (file, ()) = self.change(cx, &args.file, |file| self.sync(cx, file))?;
        Ok(v3::CommitOk { file, verifier: self.0.verifier })
    }
}
