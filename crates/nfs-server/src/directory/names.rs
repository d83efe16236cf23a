//! The names in directories.

use super::data::timestamps;
use super::served::{Directory, File};
use super::system::{self, status};
use crate::file_system::Context;
use crate::procedures::inodes::{Entry, Listed, Names, New, NewKind, Removal};
use onego_nfs::v3::{FileType, SetTime, Status, Verifier};
use onego_service::SyncExtent;
use rustix::fs::{self, AtFlags, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Bytes of names that one system call returns.
const BUFFER: usize = 32 << 10;

/// Bits of a mode that mkdir(2) does not set.
const NOT_BY_MKDIR: u32 = 0o6000;

impl Names for Directory {
    /// A cookie is that of the file system below. It is valid for as long as the directory exists, also after a restart.
    fn cookie_verifier(&self) -> Verifier {
        [0; 8]
    }

    fn parent(&self, cx: Context<'_>, dir: &File) -> Result<File, Status> {
        self.up(cx, dir)
    }

    fn entry(&self, _: Context<'_>, dir: &File, name: &[u8]) -> Result<File, Status> {
        self.file_at(dir, name)
    }

    fn list(
        &mut self,
        _: Context<'_>,
        dir: &File,
        cookie: u64,
        mut take: impl FnMut(&Self, Listed<'_, File>) -> bool,
    ) -> Result<(), Status> {
        let io = system::reopen(&dir.fd, OFlags::RDONLY | OFlags::DIRECTORY).map_err(status)?;
        if cookie != 0 {
            fs::seek(&io, SeekFrom::Start(cookie)).map_err(|_| Status::BadCookie)?;
        }
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
        let mut names = RawDir::new(&io, &mut buffer);
        while let Some(next) = names.next() {
            let next = next.map_err(status)?;
            let (cookie, name, fileid) = (next.next_entry_cookie(), next.file_name().to_bytes(), next.ino());
            if !take(self, Listed { cookie, name, fileid, inode: None }) {
                break;
            }
        }
        Ok(())
    }

    fn target(&self, link: &File) -> Result<Vec<u8>, Status> {
        let text = fs::readlinkat(&link.fd, c"", Vec::new()).map_err(status)?;
        Ok(text.into_bytes())
    }

    fn make(&mut self, cx: Context<'_>, dir: &File, name: &[u8], new: New) -> Result<File, Status> {
        if matches!(new.kind, NewKind::Regular) {
            return self.make_regular(cx, dir, name, &new);
        }
        let file = self.make_other(cx, dir, name, &new)?;
        let was_changed = [new.set.atime, new.set.mtime] != [SetTime::Leave; 2];
        let missing = match new.kind {
            NewKind::Directory => new.mode & NOT_BY_MKDIR & !file.attributes.mode,
            _ => 0,
        };
        if missing != 0 {
            self.set_mode(&file, file.attributes.mode | missing)?;
        }
        self.sync_new(cx, (dir, &file), was_changed)?;
        Ok(file)
    }

    /// By its descriptor, as linkat(2) describes: the system checks whether the caller may link the file.
    fn add_name(&mut self, cx: Context<'_>, file: &File, (dir, name): Entry<'_, File>) -> Result<(), Status> {
        let path = system::reopen_path(&file.fd);
        fs::linkat(system::ANYWHERE, path, &dir.fd, name, AtFlags::SYMLINK_FOLLOW).map_err(status_between)?;
        self.sync_name(cx, dir, Some(file))
    }

    fn remove_name(
        &mut self,
        cx: Context<'_>,
        (dir, name): Entry<'_, File>,
        file: &File,
        removal: Removal,
    ) -> Result<(), Status> {
        let flags = match removal {
            Removal::File => AtFlags::empty(),
            Removal::Directory => AtFlags::REMOVEDIR,
        };
        fs::unlinkat(&dir.fd, name, flags).map_err(status)?;
        self.lost_name(file);
        self.sync_file(cx, dir)
    }

    fn move_name(
        &mut self,
        cx: Context<'_>,
        (from_dir, from_name): Entry<'_, File>,
        (to_dir, to_name): Entry<'_, File>,
        _: &File,
        target: Option<&File>,
    ) -> Result<(), Status> {
        fs::renameat(&from_dir.fd, from_name, &to_dir.fd, to_name).map_err(status_between)?;
        // Two names of one file both stay. The table finds it again.
        if let Some(target) = target {
            self.lost_name(target);
        }
        // The table learns the new place. If others have moved the file since, the handle leads to it all the same.
        let _ = self.file_at(to_dir, to_name);
        // The new name first, so that no crash takes both.
        self.sync_file(cx, to_dir)?;
        if from_dir.identity == to_dir.identity { Ok(()) } else { self.sync_file(cx, from_dir) }
    }

    fn sync_name(&mut self, cx: Context<'_>, dir: &File, file: Option<&File>) -> Result<(), Status> {
        // A symbolic link or a special file became durable with its first name.
        if let Some(file) =
            file.filter(|file| file.is_dir() || file.attributes.file_type == FileType::Regular)
        {
            self.sync_file(cx, file)?;
        }
        self.sync_file(cx, dir)
    }
}

impl Directory {
    /// Makes a regular file. All that follows uses the descriptor of that file: others may give its name to another one
    /// meanwhile.
    fn make_regular(&self, cx: Context<'_>, dir: &File, name: &[u8], new: &New) -> Result<File, Status> {
        let New { mode, set, .. } = new;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.act_as_owner(cx, set)?;
        let opened = fs::openat(&dir.fd, name, flags, Mode::from_raw_mode(*mode));
        self.act_as(cx)?;
        let io = opened.map_err(status)?;
        // The file is empty. To truncate it would take its set-id bits.
        if let Some(size) = set.size.filter(|size| *size > 0) {
            fs::ftruncate(&io, size).map_err(status)?;
        }
        if [set.atime, set.mtime] != [SetTime::Leave; 2] {
            fs::futimens(&io, &timestamps(set.atime, set.mtime)).map_err(status)?;
        }
        let place = system::reopen_as_place(&io).map_err(status)?;
        let file = self.found(dir, name, place)?;
        self.sync_open(file.identity, &io, SyncExtent::All)?;
        self.sync_file(cx, dir)?;
        Ok(file)
    }

    /// Makes a file of another kind, with its owner and its permission bits from the start. There is no descriptor of it,
    /// so that what follows applies to any file that has its name by then. The caller's credentials apply: a user who puts
    /// another file there makes the caller do what the caller may do and has asked for, and gains no more than by waiting
    /// for a LOOKUP and a SETATTR.
    fn make_other(&self, cx: Context<'_>, dir: &File, name: &[u8], new: &New) -> Result<File, Status> {
        let mode = Mode::from_raw_mode(new.mode);
        self.act_as_owner(cx, &new.set)?;
        let made = match &new.kind {
            NewKind::Regular => Err(Errno::INVAL),
            NewKind::Directory => fs::mkdirat(&dir.fd, name, mode),
            NewKind::Symlink(text) => fs::symlinkat(text.as_slice(), &dir.fd, name),
            NewKind::Special(file_type, device) => {
                let device = fs::makedev(device.major, device.minor);
                special(*file_type).and_then(|kind| fs::mknodat(&dir.fd, name, kind, mode, device))
            }
        };
        self.act_as(cx)?;
        made.map_err(status)?;
        let file = self.file_at(dir, name)?;
        self.set_times(cx, &file, new.set.atime, new.set.mtime)?;
        Ok(file)
    }

    /// A name of a file is gone.
    fn lost_name(&self, file: &File) {
        if file.is_dir() || file.attributes.links <= 1 {
            self.table().forget(file.identity);
        }
    }
}

/// The type of a special file in the words of the system.
fn special(file_type: FileType) -> Result<fs::FileType, Errno> {
    match file_type {
        FileType::CharacterDevice => Ok(fs::FileType::CharacterDevice),
        FileType::BlockDevice => Ok(fs::FileType::BlockDevice),
        FileType::Socket => Ok(fs::FileType::Socket),
        FileType::Fifo => Ok(fs::FileType::Fifo),
        FileType::Regular | FileType::Directory | FileType::Symlink => Err(Errno::INVAL),
    }
}

/// The error of a system call that has two places.
fn status_between(error: Errno) -> Status {
    if error == Errno::XDEV { Status::Xdev } else { status(error) }
}
