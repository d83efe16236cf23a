//! A directory of this machine as a file system.
//!
//! Files are reached by names in directories that are open, one name at a time, and none is followed or opened but as a
//! place (`system`), so that no link and no ".." leads out of the directory. What is known of a file is asked of the
//! system at each call: others may work on the directory, too. That is why nothing is said of files before a change.
//!
//! Handles are signed (`handles`) and last for as long as their files, where the system lets us open files by handles;
//! descriptors of what was used lately are kept (`table`). Files in file systems that are mounted below are not given. The permission bits decide what callers may do; the system decides what the
//! server may.

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
use super::rights::{Guarded, Use, mode};
use handles::{Handles, Named};
use onego_buf::{Pool, SegmentMut};
use onego_engine::FileHandle;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, Attributes, Change, Failed, FileType, FsinfoOk, FsstatOk, Handle, PathconfOk, SetAttributes,
    SetTime, Status, properties,
};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, Timespec, Timestamps};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use system::{Identity, status};
use table::{Access, DEPTH_MAX, Found, Table, Way};

/// Files that are open at a time, if the limit of the process allows.
const OPEN_MAX: usize = 16 << 10;

/// Most hard links that are promised: what ext4 has.
const LINK_MAX: u32 = 65_000;

/// A directory of this machine as a file system. A clone is the same: each thread may have one.
#[derive(Debug, Clone)]
pub struct Directory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    root: Identity,
    handles: Handles,
    /// Another at each start: what was not committed may be lost then.
    verifier: [u8; 8],
    /// May the server give files to their owners?
    gives: bool,
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
    fn guarded(&self) -> Guarded {
        Guarded::from(&self.attributes)
    }

    fn demand_directory(&self) -> Result<(), Status> {
        if self.guarded().is_dir { Ok(()) } else { Err(Status::Notdir) }
    }

    fn demand(&self, cx: Context<'_>, wanted: Use) -> Result<(), Status> {
        if cx.caller.may(wanted, self.guarded()) { Ok(()) } else { Err(Status::Access) }
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
        let table = Mutex::new(Table::new(root, fd, OPEN_MAX.min(limit / 4)));
        let gives = rustix::process::geteuid().is_root();
        Ok(Self(Arc::new(Shared { table, root, handles, verifier, gives, pool })))
    }

    /// Are handles good for as long as their files are there, whatever becomes of the server?
    pub(super) fn handles_last(&self) -> bool {
        self.0.handles.last()
    }

    /// Closes what was not used since this was called last.
    pub(super) fn sweep(&self) {
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

    /// The file that a handle names.
    fn find(&self, handle: &Handle) -> Result<File, Status> {
        let Named { identity, system } = self.0.handles.read(handle)?;
        let found = self.table().find(identity);
        let fd = match found {
            Found::Open(fd) => fd,
            Found::Names(start, names) => {
                let fd = table::walk(start, names)?;
                self.table().keep(identity, Arc::clone(&fd), None);
                fd
            }
            Found::Nothing => return self.open_again(identity, &system.ok_or(Status::Stale)?),
        };
        let stat = system::stat(&fd).map_err(status)?;
        if stat.attributes.links == 0 {
            self.table().forget(identity);
            return Err(Status::Stale);
        }
        Ok(File { identity, fd, attributes: stat.attributes })
    }

    /// Opens a file by the handle that the system has given for it. A directory must not have been moved out of the one
    /// that is served, for what is in it now need never have been here.
    fn open_again(&self, identity: Identity, handle: &FileHandle) -> Result<File, Status> {
        let fd = Arc::new(self.0.handles.open(handle)?);
        let stat = system::stat(&fd).map_err(status)?;
        let file = File { identity, fd, attributes: stat.attributes };
        let is_outside = || file.guarded().is_dir && !self.is_inside(&file.fd, identity);
        if stat.identity != identity || file.attributes.links == 0 || is_outside() {
            return Err(Status::Stale);
        }
        self.table().keep(identity, Arc::clone(&file.fd), None);
        Ok(file)
    }

    fn root(&self) -> Result<File, Status> {
        self.find(&self.0.handles.root())
    }

    /// The directory that a directory is in. The root, and what was moved out of it, is in the root.
    fn up(&self, dir: &File) -> Result<File, Status> {
        if dir.identity == self.0.root {
            return self.root();
        }
        let Ok(fd) = system::open_parent(&dir.fd) else { return self.root() };
        let stat = system::stat(&fd).map_err(status)?;
        if !self.is_inside(&fd, stat.identity) {
            return self.root();
        }
        Ok(File { identity: stat.identity, fd: Arc::new(fd), attributes: stat.attributes })
    }

    /// Is a directory in the one that is served, or is it that?
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
        let fd = Arc::new(system::open_entry(&dir.fd, name).map_err(status)?);
        let stat = system::stat(&fd).map_err(status)?;
        let way = || Way { parent: dir.identity, name: name.to_vec() };
        let way = (!self.handles_last()).then(way);
        self.table().keep(stat.identity, Arc::clone(&fd), way);
        Ok(File { identity: stat.identity, fd, attributes: stat.attributes })
    }

    /// Attributes as they are now.
    fn now(&self, file: &File) -> Option<Attributes> {
        system::stat(&file.fd).ok().map(|stat| stat.attributes)
    }

    /// Does something with a file, and tells its attributes whether it goes well or not.
    fn with<T>(
        &self,
        handle: &Handle,
        act: impl FnOnce(&File) -> Result<T, Status>,
    ) -> Result<(Option<Attributes>, T), Failed<Option<Attributes>>> {
        let file = self.find(handle).map_err(|status| Failed { status, more: None })?;
        match act(&file) {
            Ok(value) => Ok((Some(file.attributes), value)),
            Err(status) => Err(Failed { status, more: Some(file.attributes) }),
        }
    }

    /// Changes a file, or what is in a directory, and tells what it is afterwards.
    fn change<T>(
        &self,
        handle: &Handle,
        act: impl FnOnce(&File) -> Result<T, Status>,
    ) -> Result<(Change, T), Failed<Change>> {
        let file = self.find(handle).map_err(|status| Failed { status, more: Change::default() })?;
        let result = act(&file);
        let change = Change { before: None, after: self.now(&file) };
        match result {
            Ok(value) => Ok((change, value)),
            Err(status) => Err(Failed { status, more: change }),
        }
    }

    /// SETATTR, of what may be set.
    fn set_attributes(&self, cx: Context<'_>, file: &File, set: &SetAttributes) -> Result<(), Status> {
        cx.caller.may_set(set, file.guarded(), file.attributes.file_type)?;
        if let Some(size) = set.size {
            let io = self.open_data(file, Access::Write)?;
            fs::ftruncate(&io, size).map_err(status)?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            self.give(file, set.uid, set.gid)?;
        }
        if let Some(bits) = set.mode {
            let gid = set.gid.unwrap_or(file.attributes.gid);
            let lends = cx.caller.is_root() || cx.caller.is_in(gid);
            let bits = if lends { bits } else { bits & !mode::SET_GID };
            self.set_mode(file, bits)?;
        }
        let times = Timestamps { last_access: timespec(set.atime), last_modification: timespec(set.mtime) };
        if (set.atime, set.mtime) != (SetTime::Leave, SetTime::Leave) {
            let path = system::reopen_path(&file.fd);
            fs::utimensat(system::ANYWHERE, path, &times, AtFlags::empty()).map_err(status)?;
        }
        Ok(())
    }

    fn set_mode(&self, file: &File, bits: u32) -> Result<(), Status> {
        let mode = Mode::from_raw_mode(bits & mode::ALL);
        match fs::chmod(system::reopen_path(&file.fd), mode) {
            // Links have no permissions of their own.
            Err(_) if file.attributes.file_type == FileType::Symlink => Ok(()),
            result => result.map_err(status),
        }
    }

    fn give(&self, file: &File, uid: Option<u32>, gid: Option<u32>) -> Result<(), Status> {
        let (uid, gid) = (uid.map(fs::Uid::from_raw), gid.map(fs::Gid::from_raw));
        fs::chownat(&file.fd, c"", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW).map_err(status)
    }
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

    fn getattr(&mut self, _: Context<'_>, file: Handle) -> Results<v3::Getattr> {
        let file = self.find(&file).map_err(|status| Failed { status, more: () })?;
        Ok(file.attributes)
    }

    fn setattr(&mut self, cx: Context<'_>, args: v3::SetattrArgs) -> Results<v3::Setattr> {
        let set = |file: &File| {
            if args.guard.is_some_and(|ctime| ctime != file.attributes.ctime) {
                return Err(Status::NotSync);
            }
            self.set_attributes(cx, file, &args.attributes)
        };
        self.change(&args.file, set).map(|(change, ())| change)
    }

    fn lookup(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Lookup> {
        let (dir, file) = self.with(&place.dir, |dir| self.look_up(cx, dir, &place.name.0))?;
        Ok(v3::LookupOk { file: self.handle(&file), attributes: Some(file.attributes), dir })
    }

    fn access(&mut self, cx: Context<'_>, args: v3::AccessArgs) -> Results<v3::Access> {
        let (attributes, granted) =
            self.with(&args.file, |file| Ok(cx.caller.access(args.wanted, file.guarded())))?;
        Ok(v3::AccessOk { attributes, granted })
    }

    fn readlink(&mut self, _: Context<'_>, link: Handle) -> Results<v3::Readlink> {
        let (attributes, path) = self.with(&link, |link| match link.attributes.file_type {
            FileType::Symlink => fs::readlinkat(&link.fd, c"", Vec::new()).map_err(status),
            _ => Err(Status::Inval),
        })?;
        Ok(v3::ReadlinkOk { attributes, path: path.into_bytes() })
    }

    fn read(&mut self, cx: Context<'_>, args: v3::ReadArgs) -> Results<v3::Read> {
        let (attributes, (data, eof)) =
            self.with(&args.file, |file| self.read_data(cx, file, args.offset, args.count))?;
        Ok(v3::ReadOk { attributes, eof, data })
    }

    fn write(&mut self, cx: Context<'_>, args: v3::WriteArgs) -> Results<v3::Write> {
        let write = |file: &File| self.write_data(cx, file, args.offset, args.stable, &args.data);
        let (file, count) = self.change(&args.file, write)?;
        Ok(v3::WriteOk { file, count, committed: args.stable, verifier: self.0.verifier })
    }

    fn create(&mut self, cx: Context<'_>, args: v3::CreateArgs) -> Results<v3::Create> {
        let (dir, file) =
            self.change(&args.place.dir, |dir| self.create_regular(cx, dir, &args.place.name.0, &args.how))?;
        Ok(self.created(&file, dir))
    }

    fn mkdir(&mut self, cx: Context<'_>, args: v3::MkdirArgs) -> Results<v3::Mkdir> {
        let (dir, file) = self.change(&args.place.dir, |dir| {
            self.make_directory(cx, dir, &args.place.name.0, &args.attributes)
        })?;
        Ok(self.created(&file, dir))
    }

    fn symlink(&mut self, cx: Context<'_>, args: v3::SymlinkArgs) -> Results<v3::Symlink> {
        let (dir, file) = self.change(&args.place.dir, |dir| self.make_link(cx, dir, &args))?;
        Ok(self.created(&file, dir))
    }

    fn mknod(&mut self, cx: Context<'_>, args: v3::MknodArgs) -> Results<v3::Mknod> {
        let (dir, file) =
            self.change(&args.place.dir, |dir| self.make_special(cx, dir, &args.place.name.0, &args.what))?;
        Ok(self.created(&file, dir))
    }

    fn remove(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Remove> {
        self.change(&place.dir, |dir| self.unlink(cx, dir, &place.name.0)).map(|(change, ())| change)
    }

    fn rmdir(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Rmdir> {
        self.change(&place.dir, |dir| self.unlink_directory(cx, dir, &place.name.0))
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

    fn fsstat(&mut self, _: Context<'_>, root: Handle) -> Results<v3::Fsstat> {
        let (attributes, stat) = self.with(&root, |file| fs::fstatvfs(&file.fd).map_err(status))?;
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

    fn fsinfo(&mut self, _: Context<'_>, root: Handle) -> Results<v3::Fsinfo> {
        const PAGE: u32 = 4096;
        let (attributes, ()) = self.with(&root, |_| Ok(()))?;
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

    fn pathconf(&mut self, _: Context<'_>, file: Handle) -> Results<v3::Pathconf> {
        let (attributes, ()) = self.with(&file, |_| Ok(()))?;
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

    fn commit(&mut self, _: Context<'_>, args: v3::CommitArgs) -> Results<v3::Commit> {
        let (file, ()) = self.change(&args.file, |file| self.sync(file))?;
        Ok(v3::CommitOk { file, verifier: self.0.verifier })
    }
}
