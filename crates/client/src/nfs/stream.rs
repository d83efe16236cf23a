//! Files read and written in order: reads go ahead of who reads, and writes behind who writes.

use super::Error;
use super::core::{FileRequest, RequestOutcome};
use super::file::{self, File};
use futures_channel::oneshot;
use onego_buf::List;
use onego_nfs::v3::Stability;
use std::collections::VecDeque;

/// Reads or writes that are under way at a time: enough for a fast network, and 16 MiB with calls of 1 MiB.
const WINDOW: usize = 16;

type Answer = oneshot::Receiver<RequestOutcome>;

/// Reads a file in order, ahead of its user.
pub struct Reader {
    file: File,
    /// Where the next read begins.
    offset: u64,
    ahead: VecDeque<Answer>,
    ended: bool,
}

impl Reader {
    pub(super) fn new(file: File, offset: u64) -> Self {
        Self { file, offset, ahead: VecDeque::new(), ended: false }
    }

    /// The next bytes of the file. `None`: it ends here.
    pub async fn next(&mut self) -> Result<Option<List>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.read_ahead().await?;
        let Some(answer) = self.ahead.pop_front() else { return Ok(None) };
        let (bytes, filled) = file::bytes(answer.await.map_err(|_| Error::Closed)?)?;
        self.ended = filled.eof;
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    async fn read_ahead(&mut self) -> Result<(), Error> {
        let len = self.file.mount.limits().read;
        while self.ahead.len() < WINDOW {
            let requests = &self.file.mount.requests;
            let request = FileRequest::ReadBytes { offset: self.offset, len };
            self.ahead.push_back(requests.begin(self.file.handle(), request).await?);
            self.offset += len as u64;
            // A file that is read for the first time may be short.
            if self.offset >= self.file.opened().size {
                break;
            }
        }
        Ok(())
    }
}

/// Writes a file in order, and waits only when much is under way.
pub struct Writer {
    file: File,
    offset: u64,
    behind: VecDeque<Answer>,
}

impl Writer {
    pub(super) fn new(file: File, offset: u64) -> Self {
        Self { file, offset, behind: VecDeque::new() }
    }

    /// Writes the next bytes. An error may be that of an earlier write.
    pub async fn write(&mut self, data: impl Into<List>) -> Result<(), Error> {
        if self.behind.len() == WINDOW {
            self.wait().await?;
        }
        let (offset, data) = (self.offset, data.into());
        self.offset += data.len() as u64;
        let request = FileRequest::Write { offset, data, stable: Stability::Unstable };
        self.behind.push_back(self.file.mount.requests.begin(self.file.handle(), request).await?);
        Ok(())
    }

    /// Where the next bytes go.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Completes when everything is durable.
    pub async fn finish(mut self) -> Result<(), Error> {
        while !self.behind.is_empty() {
            self.wait().await?;
        }
        self.file.sync().await
    }

    async fn wait(&mut self) -> Result<(), Error> {
        match self.behind.pop_front() {
            Some(answer) => file::written(answer.await.map_err(|_| Error::Closed)?),
            None => Ok(()),
        }
    }
}
