use super::core::{FileCommand, FileRequest, ReplyTo};
use super::error::{Error, io_error};
use super::found::Found;
use super::mount::Mount;
use super::reactor::Reactor;
use onego_buf::{List, SegmentMut};
use onego_nfs::client::Filled;
use onego_nfs::v3::{Attributes, Getattr, Handle, SetAttributes, Setattr, SetattrArgs, Stability};

/// A file on a server. It needs no closing: NFS version 3 has no open files.
#[derive(Debug, Clone)]
pub struct File {
    pub(super) mount: Mount,
    found: Found,
}

impl File {
    pub(super) fn new(mount: Mount, found: Found) -> Self {
        Self { mount, found }
    }

    /// Creates a file from a handle.
    pub fn from_handle(mount: &Mount, found: Found) -> Self {
        Self::new(mount.clone(), found)
    }

    /// Returns the mount of the file.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Returns the file's handle.
    pub fn handle(&self) -> Handle {
        self.found.handle
    }

    /// Returns the attributes from when the file was opened.
    pub fn opened(&self) -> &Attributes {
        &self.found.attributes
    }

    /// Fetches the current attributes.
    pub async fn attributes(&self) -> Result<Attributes, Error> {
        self.mount.change::<Getattr, _, _>(&self.handle(), || "reading attributes".to_owned()).await
    }

    /// Sets attributes, including the size.
    pub async fn set_attributes(&self, attributes: SetAttributes) -> Result<(), Error> {
        let args = SetattrArgs { file: self.handle(), attributes, guard: None };
        self.mount.change::<Setattr, _, _>(&args, || "setting attributes".to_owned()).await.map(drop)
    }

    /// Reads up to `len` bytes from `offset` on: fewer if the file ends before, none if `len` is 0. Short reads share
    /// their receive buffer of up to 256 KiB, which stays allocated as long as any of them exists.
    pub async fn read(&self, offset: u64, len: usize) -> Result<List, Error> {
        let read = self.file(|done| FileCommand::Bytes { offset, len, done }).await?;
        read.map(|(bytes, _)| bytes).map_err(io_error("reading"))
    }

    /// Fills the buffer from `offset` on, as far as the file extends. An empty buffer sends no request.
    pub async fn read_into(&self, offset: u64, buffer: SegmentMut) -> Result<(SegmentMut, Filled), Error> {
        let (read, buffer) = self.file(|done| FileCommand::Read { offset, buffer, done }).await?;
        read.map(|filled| (buffer, filled)).map_err(io_error("reading"))
    }

    /// Writes data. It may be lost until a [sync](Self::sync); the client keeps a copy until then.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.write_as(offset, data.into(), Stability::Unstable).await
    }

    /// Writes data, and makes it and all attributes durable.
    pub async fn write_stable(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.write_as(offset, data.into(), Stability::FileSync).await
    }

    /// Completes when all writes started before are durable. Writes that the server has lost since are sent again.
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
    /// Submits a request to a file; its completion carries `tag`. It is sent with the next [`turn`](Self::turn).
    pub fn submit(&mut self, file: &File, request: FileRequest, tag: u64) {
        let (core, now) = self.core();
        core.submit(now, file.handle(), request, tag);
    }
}
