//! What is done with the bytes of a file.

use super::core::{FileRequest, ReplyTo, RequestOutcome};
use super::error::{Error, io_error};
use super::found::Found;
use super::mount::Mount;
use super::reactor::Reactor;
use onego_buf::{List, SegmentMut};
use onego_nfs::client::{Filled, Outcome};
use onego_nfs::v3::{Attributes, Getattr, Handle, SetAttributes, Setattr, SetattrArgs, Stability};

/// A file of a server. It needs no closing: NFS knows no open files.
#[derive(Clone)]
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

    /// Reads up to `len` bytes from `offset` on: fewer, if the file ends before. Short reads lie together in the memory in
    /// which they were received, of up to 256 KiB, which is kept for as long as any of them is.
    pub async fn read(&self, offset: u64, len: usize) -> Result<List, Error> {
        Ok(bytes(self.file(FileRequest::ReadBytes { offset, len }).await?)?.0)
    }

    /// Fills the buffer from `offset` on, as far as the file goes.
    pub async fn read_into(&self, offset: u64, buffer: SegmentMut) -> Result<(SegmentMut, Filled), Error> {
        read(self.file(FileRequest::Read { offset, buffer }).await?)
    }

    /// Writes the bytes. They may be lost until a [sync](Self::sync); until then the client keeps them, too.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        let (data, stable) = (data.into(), Stability::Unstable);
        written(self.file(FileRequest::Write { offset, data, stable }).await?)
    }

    /// Writes the bytes, and makes them and all attributes durable.
    pub async fn write_stable(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        let (data, stable) = (data.into(), Stability::FileSync);
        written(self.file(FileRequest::Write { offset, data, stable }).await?)
    }

    /// Completes when everything is durable whose write was begun before. If the server has lost something in between, it
    /// is given it again.
    pub async fn sync(&self) -> Result<(), Error> {
        let (result, _) = self.file(FileRequest::Sync).await?;
        result.map(drop).map_err(io_error("making writes durable"))
    }

    async fn file(&self, request: FileRequest) -> Result<RequestOutcome, Error> {
        Ok(self.mount.requests.file(self.handle(), request).await?)
    }
}

impl Reactor {
    /// Submits a request to a file; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    pub fn submit(&mut self, file: &File, request: FileRequest, tag: u64) {
        let (core, now) = self.core();
        core.start(now, file.handle(), request, ReplyTo::Tag(tag));
    }
}

pub(super) fn read((result, buffer): RequestOutcome) -> Result<(SegmentMut, Filled), Error> {
    match (result, buffer) {
        (Ok(Outcome::Read(filled)), Some(buffer)) => Ok((buffer, filled)),
        (Err(error), _) => Err(io_error("reading")(error)),
        (Ok(_), _) => Err(Error::Closed),
    }
}

pub(super) fn bytes((result, _): RequestOutcome) -> Result<(List, Filled), Error> {
    match result.map_err(io_error("reading"))? {
        Outcome::Bytes(bytes, filled) => Ok((bytes, filled)),
        _ => Err(Error::Closed),
    }
}

pub(super) fn written((result, _): RequestOutcome) -> Result<(), Error> {
    result.map(drop).map_err(io_error("writing"))
}
