//! Names: finding, giving, changing and removing them.

use super::system::{self, status};
use super::{Access, Attributes, Change, Context, Directory, Failed, File, Handle, Results, SetTime, Status};
use crate::nfs::name::{check_name, is_dots};
use crate::nfs::rights::Use;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{self, CreateHow, CreateOk, FileType, LinkChange, Node, RenameChange, SetAttributes};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

/// The times of a file that an exclusive CREATE has made, until the client sets them: they are where the verifier outlives
/// the server (RFC 1813, section 3.3.8). Not every file system has times after 2038.
fn times_of(verifier: &[u8; 8]) -> (v3::Time, v3::Time) {
    let word = |at: usize| verifier[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    let time = |seconds| v3::Time { seconds: seconds & i32::MAX as u32, nanoseconds: 0 };
    (time(word(0)), time(word(4)))
}

fn was_made_by(file: &Attributes, verifier: &[u8; 8]) -> bool {
    file.file_type == FileType::Regular && file.size == 0 && (file.atime, file.mtime) == times_of(verifier)
}

/// Permission bits of a file until it is given to its owner with its own.
const NOBODYS: Mode = Mode::RUSR.union(Mode::WUSR);

impl Directory {
    /// The directory at a path from the root.
    pub(super) fn walk(&self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let found =
            self.root().and_then(|root| names.try_fold(root, |dir, name| self.look_up(cx, &dir, name)));
        match found {
            Ok(dir) if dir.guarded().is_dir => Ok(self.handle(&dir)),
            Ok(_) | Err(Status::Notdir) => Err(MountStatus::Notdir),
            Err(Status::Access) => Err(MountStatus::Access),
            Err(Status::Nametoolong) => Err(MountStatus::Nametoolong),
            Err(Status::Io | Status::Jukebox) => Err(MountStatus::Io),
            Err(_) => Err(MountStatus::Noent),
        }
    }

    /// May the caller look up names in it?
    fn enter(cx: Context<'_>, dir: &File) -> Result<(), Status> {
        dir.demand_directory()?;
        dir.demand(cx, Use::Execute)
    }

    pub(super) fn look_up(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<File, Status> {
        Self::enter(cx, dir)?;
        match name {
            b"." => Ok(dir.clone()),
            b".." => self.up(dir),
            name => {
                check_name(name)?;
                self.entry(dir, name)
            }
        }
    }

    /// Can the caller give that name to something in the directory?
    fn check_new(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<(), Status> {
        Self::enter(cx, dir)?;
        check_name(name)?;
        if is_dots(name) {
            return Err(Status::Exist);
        }
        match self.entry(dir, name) {
            Ok(_) => Err(Status::Exist),
            Err(Status::Noent) => dir.demand(cx, Use::Write),
            Err(status) => Err(status),
        }
    }

    pub(super) fn created(&self, file: &File, dir: Change) -> CreateOk {
        CreateOk { file: Some(self.handle(file)), attributes: self.now(file), dir }
    }

    /// CREATE.
    pub(super) fn create_regular(
        &self,
        cx: Context<'_>,
        dir: &File,
        name: &[u8],
        how: &CreateHow,
    ) -> Result<File, Status> {
        Self::enter(cx, dir)?;
        if check_name(name).is_ok()
            && let Ok(there) = self.entry(dir, name)
        {
            return self.create_again(cx, there, how);
        }
        let exclusive;
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::Guarded(set) => set,
            CreateHow::Exclusive(verifier) => {
                let (atime, mtime) = times_of(verifier);
                let (atime, mtime) = (SetTime::To(atime), SetTime::To(mtime));
                exclusive = SetAttributes { mode: Some(0o600), atime, mtime, ..SetAttributes::default() };
                &exclusive
            }
        };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = |dir: &OwnedFd, name: &[u8]| fs::openat(dir, name, flags, NOBODYS).map(drop);
        let file = self.make(cx, dir, name, set, set.mode.unwrap_or(0o644), false, make)?;
        if let Some(size) = set.size {
            let io = self.open_data(&file, Access::Write)?;
            fs::ftruncate(&io, size).map_err(status)?;
        }
        Ok(file)
    }

    /// CREATE of a name that is there.
    fn create_again(&self, cx: Context<'_>, there: File, how: &CreateHow) -> Result<File, Status> {
        match how {
            CreateHow::Unchecked(set) if there.attributes.file_type == FileType::Regular => {
                // What is there keeps its attributes, but for the size.
                let set = SetAttributes { size: set.size, ..SetAttributes::default() };
                if set.size.is_some() {
                    self.set_attributes(cx, &there, &set)?;
                }
                Ok(there)
            }
            CreateHow::Exclusive(verifier) if was_made_by(&there.attributes, verifier) => Ok(there),
            _ => Err(Status::Exist),
        }
    }

    pub(super) fn make_directory(
        &self,
        cx: Context<'_>,
        dir: &File,
        name: &[u8],
        set: &SetAttributes,
    ) -> Result<File, Status> {
        let make = |dir: &OwnedFd, name: &[u8]| fs::mkdirat(dir, name, Mode::RWXU);
        self.make(cx, dir, name, set, set.mode.unwrap_or(0o755), true, make)
    }

    pub(super) fn make_link(
        &self,
        cx: Context<'_>,
        dir: &File,
        args: &v3::SymlinkArgs,
    ) -> Result<File, Status> {
        if args.path.contains(&0) {
            return Err(Status::Inval);
        }
        let make = |dir: &OwnedFd, name: &[u8]| fs::symlinkat(args.path.as_slice(), dir, name);
        self.make(cx, dir, &args.place.name.0, &args.attributes, 0o777, false, make)
    }

    pub(super) fn make_special(
        &self,
        cx: Context<'_>,
        dir: &File,
        name: &[u8],
        what: &Node,
    ) -> Result<File, Status> {
        let none = v3::Device::default();
        let (set, kind, device) = match what {
            Node::Character(set, device) => (set, fs::FileType::CharacterDevice, *device),
            Node::Block(set, device) => (set, fs::FileType::BlockDevice, *device),
            Node::Socket(set) => (set, fs::FileType::Socket, none),
            Node::Fifo(set) => (set, fs::FileType::Fifo, none),
            Node::Other(_) => return Err(Status::Badtype),
        };
        if matches!(what, Node::Character(..) | Node::Block(..)) && !cx.caller.is_root() {
            return Err(Status::Perm);
        }
        let device = fs::makedev(device.major, device.minor);
        let make = |dir: &OwnedFd, name: &[u8]| fs::mknodat(dir, name, kind, NOBODYS, device);
        self.make(cx, dir, name, set, set.mode.unwrap_or(0o644), false, make)
    }

    /// Makes a file under a name that nothing has, and gives it to its owner with its permission bits.
    #[allow(clippy::too_many_arguments, reason = "what differs between types of files")]
    fn make(
        &self,
        cx: Context<'_>,
        dir: &File,
        name: &[u8],
        set: &SetAttributes,
        bits: u32,
        is_dir: bool,
        make: impl FnOnce(&OwnedFd, &[u8]) -> Result<(), Errno>,
    ) -> Result<File, Status> {
        self.check_new(cx, dir, name)?;
        make(&dir.fd, name).map_err(status)?;
        let file = self.entry(dir, name)?;
        let owner = cx.caller.makes(set, bits, is_dir, dir.guarded());
        if self.0.gives {
            self.give(&file, Some(owner.uid), Some(owner.gid))?;
        }
        self.set_mode(&file, owner.mode)?;
        let times = SetAttributes { atime: set.atime, mtime: set.mtime, ..SetAttributes::default() };
        if times != SetAttributes::default() {
            let attributes = self.now(&file).ok_or(Status::Stale)?;
            self.set_attributes(cx, &File { attributes, ..file.clone() }, &times)?;
        }
        Ok(file)
    }

    /// What has that name, if the caller may take it away.
    fn removable(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<File, Status> {
        let file = self.look_up(cx, dir, name)?;
        dir.demand(cx, Use::Write)?;
        Self::check_sticky(cx, dir, &file)?;
        Ok(file)
    }

    fn check_sticky(cx: Context<'_>, dir: &File, file: &File) -> Result<(), Status> {
        if cx.caller.may_unlink(dir.guarded(), file.guarded()) { Ok(()) } else { Err(Status::Perm) }
    }

    /// A name of a file is gone.
    fn lost_name(&self, file: &File) {
        if file.guarded().is_dir || file.attributes.links <= 1 {
            self.table().forget(file.identity);
        }
    }

    /// REMOVE.
    pub(super) fn unlink(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<(), Status> {
        if is_dots(name) {
            return Err(Status::Inval);
        }
        let file = self.removable(cx, dir, name)?;
        fs::unlinkat(&dir.fd, name, AtFlags::empty()).map_err(status)?;
        self.lost_name(&file);
        Ok(())
    }

    /// RMDIR.
    pub(super) fn unlink_directory(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<(), Status> {
        match name {
            // Section 3.3.13 of RFC 1813.
            b"." => return Err(Status::Inval),
            b".." => return Err(Status::Exist),
            _ => {}
        }
        let file = self.removable(cx, dir, name)?;
        fs::unlinkat(&dir.fd, name, AtFlags::REMOVEDIR).map_err(status)?;
        self.lost_name(&file);
        Ok(())
    }

    /// LINK.
    pub(super) fn add_link(&self, cx: Context<'_>, file: &Handle, link: &v3::Place) -> Results<v3::Link> {
        let failed = |status| Failed { status, more: LinkChange::default() };
        let file = self.find(file).map_err(failed)?;
        let linked = self.change(&link.dir, |dir| {
            if file.guarded().is_dir {
                return Err(Status::Perm);
            }
            self.check_new(cx, dir, &link.name.0)?;
            let path = system::reopen_path(&file.fd);
            fs::linkat(system::ANYWHERE, path, &dir.fd, link.name.0.as_slice(), AtFlags::SYMLINK_FOLLOW)
                .map_err(status)
        });
        let file = self.now(&file);
        match linked {
            Ok((dir, ())) => Ok(LinkChange { file, dir }),
            Err(Failed { status, more: dir }) => Err(Failed { status, more: LinkChange { file, dir } }),
        }
    }

    /// RENAME.
    pub(super) fn move_entry(
        &self,
        cx: Context<'_>,
        from: &v3::Place,
        to: &v3::Place,
    ) -> Results<v3::Rename> {
        let failed = |status| Failed { status, more: RenameChange::default() };
        let (from_dir, to_dir) = (self.find(&from.dir).map_err(failed)?, self.find(&to.dir).map_err(failed)?);
        let renamed = self.rename_in(cx, (&from_dir, &from.name.0), (&to_dir, &to.name.0));
        let after = |dir| Change { before: None, after: self.now(dir) };
        let change = RenameChange { from: after(&from_dir), to: after(&to_dir) };
        renamed.map(|()| change).map_err(|status| Failed { status, more: change })
    }

    fn rename_in(&self, cx: Context<'_>, from: (&File, &[u8]), to: (&File, &[u8])) -> Result<(), Status> {
        let ((from_dir, from_name), (to_dir, to_name)) = (from, to);
        if is_dots(from_name) || is_dots(to_name) {
            return Err(Status::Inval);
        }
        let file = self.look_up(cx, from_dir, from_name)?;
        let target = match self.look_up(cx, to_dir, to_name) {
            Ok(target) if target.identity == file.identity => return Ok(()),
            Ok(target) => Some(target),
            Err(Status::Noent) => None,
            Err(status) => return Err(status),
        };
        from_dir.demand(cx, Use::Write)?;
        to_dir.demand(cx, Use::Write)?;
        Self::check_sticky(cx, from_dir, &file)?;
        if file.guarded().is_dir && from_dir.identity != to_dir.identity {
            // Its ".." is changed.
            file.demand(cx, Use::Write)?;
        }
        if let Some(target) = &target {
            Self::check_sticky(cx, to_dir, target)?;
        }
        fs::renameat(&from_dir.fd, from_name, &to_dir.fd, to_name).map_err(status)?;
        if let Some(target) = &target {
            self.lost_name(target);
        }
        // It is found at its new place from here on. If others have moved it since, the handle leads to it all the same.
        let _ = self.entry(to_dir, to_name);
        Ok(())
    }
}
