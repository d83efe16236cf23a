//! The bytes of regular files.

use super::system::{self, status};
use super::{Access, Context, Directory, File, Status, TRANSFER_MAX};
use onego_buf::List;
use onego_nfs::v3::{FileType, Stability};
use rustix::fd::OwnedFd;
use rustix::fs::{self, OFlags};
use rustix::io::{self, Errno};
use std::sync::Arc;

/// Pieces of a payload that go in one write.
const PIECES: usize = 256;

impl Directory {
    /// A regular file, open to be read or written, if the caller may.
    pub(super) fn open_data(
        &self,
        cx: Context<'_>,
        file: &File,
        access: Access,
    ) -> Result<Arc<OwnedFd>, Status> {
        if file.attributes.file_type != FileType::Regular {
            return Err(Status::Inval);
        }
        let kept = self.table().data(file.identity, access);
        if let Some(fd) = kept {
            // Others may have opened it, and its permissions may have changed since.
            self.check_data(cx, file, access)?;
            return Ok(fd);
        }
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
        };
        let opened = match system::reopen(&file.fd, flags) {
            Err(Errno::ACCESS) => {
                self.check_data(cx, file, access)?;
                self.as_server(cx, || system::reopen(&file.fd, flags).map_err(status))?
            }
            opened => opened.map_err(status)?,
        };
        let fd = Arc::new(opened);
        self.table().keep_data(file.identity, access, Arc::clone(&fd));
        Ok(fd)
    }

    /// May the caller read or write the bytes? The caller's system has checked the permissions when it opened the file, and
    /// they may have changed since: an owner always may (RFC 1813, section 4.4). What is executed has to be read, too. knfsd
    /// has the same two exceptions.
    fn check_data(&self, cx: Context<'_>, file: &File, access: Access) -> Result<(), Status> {
        if self.acting_uid(cx) == file.attributes.uid || self.overrides(cx) {
            return Ok(());
        }
        let may = match access {
            Access::Read => file.may(fs::Access::READ_OK) || file.may(fs::Access::EXEC_OK),
            Access::Write => file.may(fs::Access::WRITE_OK),
        };
        if may { Ok(()) } else { Err(Status::Access) }
    }

    /// Reads bytes; `true`: they reach the end.
    pub(super) fn read_data(
        &self,
        cx: Context<'_>,
        file: &File,
        offset: u64,
        count: u32,
    ) -> Result<(List, bool), Status> {
        let io = self.open_data(cx, file, Access::Read)?;
        let left = file.attributes.size.saturating_sub(offset);
        let len = left.min(count.into()).min(TRANSFER_MAX as u64) as usize;
        if len == 0 {
            return Ok((List::new(), left == 0));
        }
        let mut buffer = self.0.pool.get(len);
        let mut done = 0;
        while done < len {
            match io::pread(&io, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(status(error)),
            }
        }
        buffer.truncate(done);
        // A file that has become shorter in between ends where there was no more.
        Ok((buffer.into(), done < len || len as u64 == left))
    }

    /// Writes bytes, and says how many.
    pub(super) fn write_data(
        &self,
        cx: Context<'_>,
        file: &File,
        offset: u64,
        stable: Stability,
        data: &List,
    ) -> Result<u32, Status> {
        let io = self.open_data(cx, file, Access::Write)?;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return Err(Status::Fbig);
        }
        let (mut rest, mut at) = (data.clone(), offset);
        while !rest.is_empty() {
            let slices: Vec<_> = rest.io_slices(PIECES).collect();
            match io::pwritev(&io, &slices, at) {
                Ok(n) => {
                    drop(slices);
                    rest.advance(n);
                    at += n as u64;
                }
                Err(Errno::INTR) => {}
                // What was written counts; the client goes on behind it, and is told then.
                Err(_) if at > offset => break,
                Err(error) => return Err(status(error)),
            }
        }
        match stable {
            Stability::Unstable => {}
            Stability::DataSync => fs::fdatasync(&io).map_err(status)?,
            Stability::FileSync => fs::fsync(&io).map_err(status)?,
        }
        Ok((at - offset) as u32)
    }

    /// Makes what was written durable. That shows and changes nothing, so that every caller may ask for it.
    pub(super) fn sync(&self, cx: Context<'_>, file: &File) -> Result<(), Status> {
        let open = || system::reopen(&file.fd, OFlags::RDONLY).map(Arc::new).map_err(status);
        let io = match file.attributes.file_type {
            FileType::Directory => self.as_server(cx, open)?,
            FileType::Regular => {
                // What could not be written back is told to those who had the file open then.
                let written = self.table().data(file.identity, Access::Write);
                let kept = written.or_else(|| self.table().data(file.identity, Access::Read));
                let io = kept.map_or_else(|| self.as_server(cx, open), Ok)?;
                self.table().written(file.identity);
                io
            }
            _ => return Err(Status::Inval),
        };
        fs::fsync(&io).map_err(status)
    }
}
