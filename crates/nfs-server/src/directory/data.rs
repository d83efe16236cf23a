//! The bytes of regular files, and the attributes of all files.

use super::served::{Directory, File};
use super::system::{self, status};
use crate::file_system::Context;
use crate::procedures::attributes::check_data;
use crate::procedures::inodes::{Access, Contents};
use crate::procedures::limits::MODE_ALL;
use onego_buf::List;
use onego_nfs::v3::{FileType, SetAttributes, SetTime, Stability, Status, Verifier};
use onego_service::SyncExtent;
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::{self, Errno};
use std::sync::Arc;

/// Pieces of a payload that go in one write.
const PIECES: usize = 256;

impl Contents for Directory {
    type Data = Arc<OwnedFd>;

    fn write_verifier(&self) -> Verifier {
        self.shared().syncs.verifier()
    }

    fn size(&self, file: &File) -> u64 {
        file.attributes.size
    }

    fn set_attributes(&mut self, cx: Context<'_>, file: &File, set: &SetAttributes) -> Result<(), Status> {
        let mut set = *set;
        if let Some(size) = set.size {
            let io = self.open_file(cx, file, Access::Write)?;
            fs::ftruncate(&io, size).map_err(status)?;
            if set.mtime == SetTime::ServerTime {
                // The file has that time by now, also if the caller is not the owner.
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
        self.set_times(cx, file, set.atime, set.mtime)?;
        self.sync_file(cx, file)
    }

    fn open_file(&mut self, cx: Context<'_>, file: &File, access: Access) -> Result<Arc<OwnedFd>, Status> {
        // Nothing else is ever opened: opening a FIFO or a device has effects of its own.
        if file.attributes.file_type != FileType::Regular {
            return Err(Status::Inval);
        }
        let kept = self.table().data(file.identity, access);
        if let Some(fd) = kept {
            // Others may have opened it, and its permissions may have changed since.
            check_data(self, cx, file, access)?;
            return Ok(fd);
        }
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
        };
        let opened = match system::reopen(&file.fd, flags) {
            Err(Errno::ACCESS) => {
                check_data(self, cx, file, access)?;
                self.as_server(cx, || system::reopen(&file.fd, flags).map_err(status))?
            }
            opened => opened.map_err(status)?,
        };
        let fd = Arc::new(opened);
        self.table().keep_data(file.identity, access, Arc::clone(&fd));
        Ok(fd)
    }

    fn read_at(
        &mut self,
        _: Context<'_>,
        (_, io): (&File, &Arc<OwnedFd>),
        offset: u64,
        len: usize,
    ) -> Result<List, Status> {
        let mut buffer = self.shared().pool.get(len);
        let mut done = 0;
        while done < len {
            match io::pread(io, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(status(error)),
            }
        }
        buffer.truncate(done);
        Ok(buffer.into())
    }

    fn write_at(
        &mut self,
        _: Context<'_>,
        (file, io): (&File, &Arc<OwnedFd>),
        offset: u64,
        data: List,
        stable: Stability,
    ) -> Result<u32, Status> {
        let (mut rest, mut at) = (data, offset);
        while !rest.is_empty() {
            let slices: Vec<_> = rest.io_slices(PIECES).collect();
            match io::pwritev(io, &slices, at) {
                Ok(n) => {
                    drop(slices);
                    rest.advance(n);
                    at += n as u64;
                }
                Err(Errno::INTR) => {}
                // The written bytes count. The client continues behind them, and gets the error then.
                Err(_) if at > offset => break,
                Err(error) => return Err(status(error)),
            }
        }
        match stable {
            Stability::Unstable => {}
            Stability::DataSync => self.sync_open(file.identity, io, SyncExtent::Data)?,
            Stability::FileSync => self.sync_open(file.identity, io, SyncExtent::All)?,
        }
        Ok((at - offset) as u32)
    }

    /// Shows and changes nothing, so every caller may ask for it.
    fn sync(&mut self, cx: Context<'_>, file: &File) -> Result<(), Status> {
        let result = self.sync_file(cx, file);
        self.table().written(file.identity);
        result
    }
}

impl Directory {
    pub(super) fn set_times(
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
            // Without owning the file, a caller with write permission may only set both times to now.
            (atime, mtime) = (SetTime::ServerTime, SetTime::ServerTime);
        }
        let path = system::reopen_path(&file.fd);
        fs::utimensat(system::ANYWHERE, path, &timestamps(atime, mtime), AtFlags::empty()).map_err(status)
    }

    pub(super) fn set_mode(&self, file: &File, bits: u32) -> Result<(), Status> {
        match fs::chmod(system::reopen_path(&file.fd), Mode::from_raw_mode(bits & MODE_ALL)) {
            // Links have no permissions of their own.
            Err(_) if file.attributes.file_type == FileType::Symlink => Ok(()),
            result => result.map_err(status),
        }
    }
}

pub(super) fn timestamps(atime: SetTime, mtime: SetTime) -> Timestamps {
    Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) }
}

fn timespec(set: SetTime) -> Timespec {
    match set {
        SetTime::Leave => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        SetTime::ServerTime => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        SetTime::To(to) => Timespec { tv_sec: to.seconds.into(), tv_nsec: to.nanoseconds.into() },
    }
}
