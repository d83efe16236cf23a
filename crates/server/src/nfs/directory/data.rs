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
    /// A regular file, open to be read or written.
    pub(super) fn open_data(&self, file: &File, access: Access) -> Result<Arc<OwnedFd>, Status> {
        if file.attributes.file_type != FileType::Regular {
            return Err(Status::Inval);
        }
        let kept = self.table().data(file.identity, access);
        if let Some(fd) = kept {
            return Ok(fd);
        }
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
        };
        let fd = Arc::new(system::reopen(&file.fd, flags).map_err(status)?);
        self.table().keep_data(file.identity, access, Arc::clone(&fd));
        Ok(fd)
    }

    /// Reads bytes; `true`: they reach the end.
    pub(super) fn read_data(
        &self,
        cx: Context<'_>,
        file: &File,
        offset: u64,
        count: u32,
    ) -> Result<(List, bool), Status> {
        if file.attributes.file_type == FileType::Regular && !cx.caller.may_read_data(file.guarded()) {
            return Err(Status::Access);
        }
        let io = self.open_data(file, Access::Read)?;
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
        if file.attributes.file_type == FileType::Regular && !cx.caller.may_write_data(file.guarded()) {
            return Err(Status::Access);
        }
        let io = self.open_data(file, Access::Write)?;
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
        if !cx.caller.is_root() && at > offset {
            self.drop_privileges(file)?;
        }
        match stable {
            Stability::Unstable => {}
            Stability::DataSync => fs::fdatasync(&io).map_err(status)?,
            Stability::FileSync => fs::fsync(&io).map_err(status)?,
        }
        Ok((at - offset) as u32)
    }

    /// A server that is root keeps the privileges of what it writes to, which a caller who is not must not.
    fn drop_privileges(&self, file: &File) -> Result<(), Status> {
        let bits = crate::nfs::rights::without_privileges(file.attributes.mode);
        if bits == file.attributes.mode { Ok(()) } else { self.set_mode(file, bits) }
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self, file: &File) -> Result<(), Status> {
        if file.attributes.file_type == FileType::Directory {
            let io = system::reopen(&file.fd, OFlags::RDONLY).map_err(status)?;
            return fs::fsync(&io).map_err(status);
        }
        // What could not be written back is told to those who had the file open then.
        let written = self.table().data(file.identity, Access::Write);
        let io = written.map_or_else(|| self.open_data(file, Access::Read), Ok)?;
        self.table().written(file.identity);
        fs::fsync(&io).map_err(status)
    }
}
