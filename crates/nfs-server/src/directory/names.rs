//! Names: finding, giving, changing and removing them.

use super::system::{self, status};
use super::table::Way;
use super::{
    Attributes, Change, Context, Directory, Failed, File, Handle, MODE_BITS, Results, SetTime, Status,
    timestamps,
};
use crate::name::{check_name, is_dots};
use crate::rights::check_values;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{self, CreateHow, CreateOk, FileType, LinkChange, Node, RenameChange, SetAttributes};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;

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

/// Bits of a mode that mkdir(2) does not set.
const NOT_BY_MKDIR: u32 = 0o6000;

/// Symbolic links on the way to a directory that is mounted: as many as Linux follows.
const LINKS_MAX: usize = 40;

/// How often CREATE tries a name that is there and is not, because others make and remove it meanwhile.
const TRIES: usize = 8;

impl Directory {
    /// The directory at a path from the root. Links are followed as the kernel would whose root it is: none leads out.
    pub(super) fn walk(&self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        match self.follow(cx, path) {
            Ok(dir) if dir.is_dir() => Ok(self.handle(&dir)),
            Ok(_) | Err(Status::Notdir) => Err(MountStatus::Notdir),
            Err(Status::Access) => Err(MountStatus::Access),
            Err(Status::Nametoolong) => Err(MountStatus::Nametoolong),
            Err(Status::Io | Status::Jukebox) => Err(MountStatus::Io),
            Err(_) => Err(MountStatus::Noent),
        }
    }

    fn follow(&self, cx: Context<'_>, path: &[u8]) -> Result<File, Status> {
        let mut dir = self.root(cx)?;
        let mut links = 0;
        // The names that are left, the next one last.
        let mut names = Vec::new();
        push_names(&mut names, path);
        while let Some(name) = names.pop() {
            let next = self.look_up(cx, &dir, &name)?;
            if next.attributes.file_type != FileType::Symlink {
                dir = next;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Status::Noent);
            }
            let target = fs::readlinkat(&next.fd, c"", Vec::new()).map_err(status)?.into_bytes();
            if target.starts_with(b"/") {
                dir = self.root(cx)?;
            }
            push_names(&mut names, &target);
        }
        Ok(dir)
    }

    pub(super) fn look_up(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<File, Status> {
        dir.demand_directory()?;
        match name {
            b"." | b".." if !dir.may(fs::Access::EXEC_OK) => Err(Status::Access),
            b"." => Ok(dir.clone()),
            b".." => self.up(cx, dir),
            name => {
                check_name(name)?;
                self.entry(dir, name)
            }
        }
    }

    /// Can something new in the directory have that name? (Whether it is free, and whether the caller may give it, is for
    /// the system to say.)
    fn check_new(dir: &File, name: &[u8]) -> Result<(), Status> {
        dir.demand_directory()?;
        check_name(name)?;
        if is_dots(name) { Err(Status::Exist) } else { Ok(()) }
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
        Self::check_new(dir, name)?;
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
        check_values(set)?;
        for _ in 0..TRIES {
            match self.create_new(cx, dir, name, set) {
                Err(Status::Exist) if !matches!(how, CreateHow::Guarded(_)) => {}
                result => return result,
            }
            match self.entry(dir, name) {
                Ok(there) => return self.create_again(cx, there, how),
                // It was there just now.
                Err(Status::Noent) => {}
                Err(status) => return Err(status),
            }
        }
        Err(Status::Jukebox)
    }

    /// Makes a file that nobody has made. What follows goes to the descriptor of that file: others may give its name to
    /// another one meanwhile.
    fn create_new(
        &self,
        cx: Context<'_>,
        dir: &File,
        name: &[u8],
        set: &SetAttributes,
    ) -> Result<File, Status> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(set.mode.unwrap_or(0o644) & MODE_BITS);
        self.act_as_owner(cx, set)?;
        let opened = fs::openat(&dir.fd, name, flags, mode);
        self.act_as(cx)?;
        let io = opened.map_err(status)?;
        if let Some(size) = set.size {
            fs::ftruncate(&io, size).map_err(status)?;
        }
        if [set.atime, set.mtime] != [SetTime::Leave; 2] {
            fs::futimens(&io, &timestamps(set.atime, set.mtime)).map_err(status)?;
        }
        let place = system::reopen_as_place(&io).map_err(status)?;
        self.found(dir, name, place)
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
        let bits = set.mode.unwrap_or(0o755) & MODE_BITS;
        let make = |dir: &OwnedFd, name: &[u8]| fs::mkdirat(dir, name, Mode::from_raw_mode(bits));
        let file = self.make(cx, dir, name, set, make)?;
        let missing = bits & NOT_BY_MKDIR & !file.attributes.mode;
        if missing != 0 {
            self.set_mode(&file, file.attributes.mode | missing)?;
        }
        Ok(file)
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
        self.make(cx, dir, &args.place.name.0, &args.attributes, make)
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
        let mode = Mode::from_raw_mode(set.mode.unwrap_or(0o644) & MODE_BITS);
        let device = fs::makedev(device.major, device.minor);
        let make = |dir: &OwnedFd, name: &[u8]| fs::mknodat(dir, name, kind, mode, device);
        self.make(cx, dir, name, set, make)
    }

    /// Makes what is not a regular file, with its owner and its permission bits from the start. There is no descriptor of
    /// it, so that what follows goes to whatever has its name by then. That is done with the caller's credentials: who puts
    /// something else there has the caller do what the caller may do and asked for, and gains no more than by waiting for
    /// a LOOKUP and a SETATTR.
    fn make(
        &self,
        cx: Context<'_>,
        dir: &File,
        name: &[u8],
        set: &SetAttributes,
        make: impl FnOnce(&OwnedFd, &[u8]) -> Result<(), Errno>,
    ) -> Result<File, Status> {
        Self::check_new(dir, name)?;
        check_values(set)?;
        self.act_as_owner(cx, set)?;
        let made = make(&dir.fd, name);
        self.act_as(cx)?;
        made.map_err(status)?;
        let file = self.entry(dir, name)?;
        self.set_times(cx, &file, set.atime, set.mtime)?;
        Ok(file)
    }

    /// A name of a file is gone.
    fn lost_name(&self, file: &File) {
        if file.is_dir() || file.attributes.links <= 1 {
            self.table().forget(file.identity);
        }
    }

    /// REMOVE.
    pub(super) fn unlink(&self, cx: Context<'_>, dir: &File, name: &[u8]) -> Result<(), Status> {
        if is_dots(name) {
            return Err(Status::Inval);
        }
        let file = self.look_up(cx, dir, name)?;
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
        let file = self.look_up(cx, dir, name)?;
        fs::unlinkat(&dir.fd, name, AtFlags::REMOVEDIR).map_err(status)?;
        self.lost_name(&file);
        Ok(())
    }

    /// LINK.
    pub(super) fn add_link(&self, cx: Context<'_>, file: &Handle, link: &v3::Place) -> Results<v3::Link> {
        let failed = |status| Failed { status, more: LinkChange::default() };
        let file = self.find(cx, file).map_err(failed)?;
        let linked = self.change(cx, &link.dir, |dir| {
            if file.is_dir() {
                return Err(Status::Perm);
            }
            Self::check_new(dir, &link.name.0)?;
            // By its descriptor, as linkat(2) tells it: the system looks whether the caller may link the file.
            let path = system::reopen_path(&file.fd);
            fs::linkat(system::ANYWHERE, path, &dir.fd, link.name.0.as_slice(), AtFlags::SYMLINK_FOLLOW)
                .map_err(status_between)
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
        let from_dir = self.find(cx, &from.dir).map_err(failed)?;
        let to_dir = self.find(cx, &to.dir).map_err(failed)?;
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
        self.look_up(cx, from_dir, from_name)?;
        let target = match self.look_up(cx, to_dir, to_name) {
            Ok(target) => Some(target),
            Err(Status::Noent) => None,
            Err(status) => return Err(status),
        };
        fs::renameat(&from_dir.fd, from_name, &to_dir.fd, to_name).map_err(status_between)?;
        // Of two names of one file none is gone; what is known of it is found again.
        if let Some(target) = &target {
            self.lost_name(target);
        }
        // It is found at its new place from here on. If others have moved it since, the handle leads to it all the same.
        let _ = self.entry(to_dir, to_name);
        Ok(())
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

/// The error of a system call that has two places.
fn status_between(error: Errno) -> Status {
    if error == Errno::XDEV { Status::Xdev } else { status(error) }
}

/// Puts the names of a path on top of those that are left.
fn push_names(names: &mut Vec<Vec<u8>>, path: &[u8]) {
    let parts = path.rsplit(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.extend(parts.map(<[u8]>::to_vec));
}
