//! What is done with the bytes of a file.

use super::core::{FileCommand, FileRequest, ReplyTo};
use super::error::{Error, io_error};
use super::found::Found;
use super::mount::Mount;
use super::reactor::Reactor;
use onego_buf::{List, SegmentMut};
use onego_nfs::client::Filled;
use onego_nfs::v3::{Attributes, Getattr, Handle, SetAttributes, Setattr, SetattrArgs, Stability};

/// A file of a server. It needs no closing: NFS knows no open files.
#[derive(Debug, Clone)]
pub struct File {
    pub(super) mount: Mount,
    found: Found,
}

impl File {
    pub(super) fn new(mount: Mount, found: Found) -> Self {
        Self { mount, found }
    }

    /// The file with that handle.
    pub fn from_handle(mount: &Mount, found: Found) -> Self {
        Self::new(mount.clone(), found)
    }

    /// The mount that it was opened by.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Names it to the server.
    pub fn handle(&self) -> Handle {
        self.found.handle
    }

    /// What was known of it when it was opened.
    pub fn opened(&self) -> &Attributes {
        &self.found.attributes
    }

    /// What is known of it now.
    pub async fn attributes(&self) -> Result<Attributes, Error> {
        self.mount.change::<Getattr, _, _>(&self.handle(), || "asking for attributes".to_owned()).await
    }

    /// Sets attributes, of which the size is one.
    pub async fn set_attributes(&self, attributes: SetAttributes) -> Result<(), Error> {
        let args = SetattrArgs { file: self.handle(), attributes, guard: None };
        self.mount.change::<Setattr, _, _>(&args, || "setting attributes".to_owned()).await.map(drop)
    }

    /// Reads up to `len` bytes from `offset` on: fewer, if the file ends before, and none if `len` is 0. Short reads lie together in the memory in
    /// which they were received, of up to 256 KiB, which is kept for as long as any of them is.
    pub async fn read(&self, offset: u64, len: usize) -> Result<List, Error> {
        let read = self.file(|done| FileCommand::Bytes { offset, len, done }).await?;
        read.map(|(bytes, _)| bytes).map_err(io_error("reading"))
    }

    /// Fills the buffer from `offset` on, as far as the file goes. With an empty buffer nothing is read.
    pub async fn read_into(&self, offset: u64, buffer: SegmentMut) -> Result<(SegmentMut, Filled), Error> {
        let (read, buffer) = self.file(|done| FileCommand::Read { offset, buffer, done }).await?;
        read.map(|filled| (buffer, filled)).map_err(io_error("reading"))
    }

    /// Writes the bytes. They may be lost until a [sync](Self::sync); until then the client keeps them, too.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.write_as(offset, data.into(), Stability::Unstable).await
    }

    /// Writes the bytes, and makes them and all attributes durable.
    pub async fn write_stable(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.write_as(offset, data.into(), Stability::FileSync).await
    }

    /// Completes when everything is durable whose write was begun before. If the server has lost something in between, it
    /// is given it again.
    pub async fn sync(&self) -> Result<(), Error> {
        let synced = self.file(|done| FileCommand::Sync { done }).await?;
        synced.map_err(io_error("making writes durable"))
    }

    async fn write_as(&self, offset: u64, data: List, stable: Stability) -> Result<(), Error> {
        let written = self.file(|done| FileCommand::Write { offset, data, stable, done }).await?;
        written.map_err(io_error("writing"))
    }

    async fn file<T>(&self, command: impl FnOnce(ReplyTo<T>) -> FileCommand) -> Result<T, Error> {
        Ok(self.mount.requests.file(self.handle(), command).await?)
    }
}

impl Reactor {
    /// Submits a request to a file; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    pub fn submit(&mut self, file: &File, request: FileRequest, tag: u64) {
        let (core, now) = self.core();
        core.submit(now, file.handle(), request, tag);
    }
}
