//! Sequential access to files, with read-ahead and write-behind.

use super::core::{BytesOutcome, DoneOutcome, FileCommand};
use super::error::{Error, io_error};
use super::file::File;
use futures_channel::oneshot;
use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use onego_buf::List;
use onego_nfs::v3::Stability;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Reads or writes in flight: enough for a fast network, and 16 MiB with calls of 1 MiB.
const WINDOW: usize = 16;

/// A future that owns its state and returns it with its result.
type Step<S, T> = Pin<Box<dyn Future<Output = (S, Result<T, Error>)> + Send>>;

/// State at rest, or the step that owns it.
enum ReaderStage<S, T> {
    Idle(S),
    Busy(Step<S, T>),
    Lost,
}

impl<S: Send + 'static, T> ReaderStage<S, T> {
    /// Starts a step. The previous one must have ended.
    fn begin(&mut self, step: impl FnOnce(S) -> Step<S, T>) {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Idle(state) => Self::Busy(step(state)),
            busy => busy,
        };
    }

    /// Waits for the current step; `None` if there is none.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        match self {
            Self::Idle(_) => Poll::Ready(None),
            Self::Busy(step) => {
                let (state, result) = ready!(step.as_mut().poll(cx));
                *self = Self::Idle(state);
                Poll::Ready(Some(result))
            }
            Self::Lost => Poll::Ready(Some(Err(Error::Closed))),
        }
    }
}

impl File {
    /// Returns a sequential reader from `offset` on, with read-ahead.
    pub fn reader(&self, offset: u64) -> Reader {
        Reader::new(self.clone(), offset)
    }

    /// Returns a sequential writer from `offset` on, which does not wait for each write.
    pub fn writer(&self, offset: u64) -> Writer {
        Writer::new(self.clone(), offset)
    }
}

/// Sequential reader of a file with read-ahead.
///
/// It also implements [`AsyncRead`] and [`AsyncBufRead`] of the crate `futures-io`; `tokio_util::compat` adapts them
/// to those of tokio. Polling through these traits costs one small allocation for each READ of up to 1 MiB. Dropping
/// the reader cancels the reads in flight.
pub struct Reader {
    stage: ReaderStage<ReadAhead, Option<List>>,
    chunk: List,
}

struct ReadAhead {
    file: File,
    offset: u64,
    reads: VecDeque<oneshot::Receiver<BytesOutcome>>,
    ended: bool,
}

impl Reader {
    fn new(file: File, offset: u64) -> Self {
        let ahead = ReadAhead { file, offset, reads: VecDeque::new(), ended: false };
        Self { stage: ReaderStage::Idle(ahead), chunk: List::new() }
    }

    /// Returns the file's next bytes, as many as one READ returned, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<List>, Error> {
        poll_fn(|cx| self.poll_chunk(cx)).await?;
        Ok((!self.chunk.is_empty()).then(|| std::mem::take(&mut self.chunk)))
    }

    /// Fills `chunk` if it is empty, unless the file ends here.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.chunk.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.stage.begin(|mut ahead| {
            Box::pin(async move {
                let result = ahead.next().await;
                (ahead, result)
            })
        });
        let result = ready!(self.stage.poll_end(cx));
        self.chunk = result.transpose()?.flatten().unwrap_or_default();
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for Reader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_chunk(cx)).map_err(io::Error::from)?;
        Poll::Ready(Ok(this.chunk.segments().next().map_or(&[], |segment| segment)))
    }

    fn consume(mut self: Pin<&mut Self>, n: usize) {
        self.chunk.advance(n);
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_chunk(cx)).map_err(io::Error::from)?;
        let n = self.chunk.copy_to(buffer);
        self.chunk.advance(n);
        Poll::Ready(Ok(n))
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.reads.clear();
        self.file.mount.requests.sweep();
    }
}

impl ReadAhead {
    async fn next(&mut self) -> Result<Option<List>, Error> {
        if self.ended {
            return Ok(None);
        }
        self.read_ahead().await?;
        let Some(answer) = self.reads.pop_front() else { return Ok(None) };
        let read = answer.await.map_err(|_| Error::Closed)?;
        let (bytes, filled) = read.map_err(io_error("reading"))?;
        self.ended = filled.eof;
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    async fn read_ahead(&mut self) -> Result<(), Error> {
        let len = self.file.mount.limits().read;
        while self.reads.len() < WINDOW {
            let requests = &self.file.mount.requests;
            let offset = self.offset;
            let read = requests.begin(self.file.handle(), |done| FileCommand::Bytes { offset, len, done });
            self.reads.push_back(read.await?);
            self.offset += len as u64;
            // A file that is read for the first time may be short.
            if self.offset >= self.file.opened().size {
                break;
            }
        }
        Ok(())
    }
}

/// Sequential writer of a file, which waits only when its window of in-flight writes is full.
///
/// It also implements [`AsyncWrite`] of the crate `futures-io`, which copies its input; a flush or close makes
/// everything durable. `tokio_util::compat` adapts it to tokio's. Data is durable only after
/// [`finish`](Self::finish), a flush or a close, each of which also reports errors of earlier writes. Dropping the
/// writer before that cancels the writes in flight, each of which may still be applied.
pub struct Writer {
    stage: ReaderStage<WriteBehind, ()>,
    offset: u64,
    limit: usize,
    syncing: bool,
}

struct WriteBehind {
    file: File,
    writes: VecDeque<oneshot::Receiver<DoneOutcome>>,
}

impl Writer {
    fn new(file: File, offset: u64) -> Self {
        let limit = file.mount.limits().write;
        Self {
            stage: ReaderStage::Idle(WriteBehind { file, writes: VecDeque::new() }),
            offset,
            limit,
            syncing: false,
        }
    }

    /// Writes the next bytes. An error may belong to an earlier write.
    pub async fn write(&mut self, data: impl Into<List>) -> Result<(), Error> {
        poll_fn(|cx| self.poll_idle(cx)).await?;
        self.begin_write(data.into());
        poll_fn(|cx| self.poll_idle(cx)).await
    }

    /// Skips bytes of the file, which stay unchanged.
    pub fn skip(&mut self, bytes: u64) {
        self.offset += bytes;
    }

    /// Returns the offset of the next write.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Completes when everything is durable.
    pub async fn finish(mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_idle(cx)).await?;
        self.begin_sync();
        poll_fn(|cx| self.poll_idle(cx)).await
    }

    fn begin_write(&mut self, data: List) {
        let offset = self.offset;
        self.offset += data.len() as u64;
        self.syncing = false;
        self.stage.begin(|mut behind| {
            Box::pin(async move {
                let result = behind.write(offset, data).await;
                (behind, result)
            })
        });
    }

    fn begin_sync(&mut self) {
        self.syncing = true;
        self.stage.begin(|mut behind| {
            Box::pin(async move {
                let result = behind.sync().await;
                (behind, result)
            })
        });
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.stage.poll_end(cx).map(|ended| ended.unwrap_or(Ok(())))
    }
}

impl AsyncWrite for Writer {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_idle(cx)).map_err(io::Error::from)?;
        let n = data.len().min(self.limit);
        if n > 0 {
            self.begin_write(data[..n].into());
            // Usually there is room and the write is in flight already. Otherwise the next call waits for room.
            if let Poll::Ready(Err(error)) = self.poll_idle(cx) {
                return Poll::Ready(Err(error.into()));
            }
        }
        Poll::Ready(Ok(n))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let ReaderStage::Idle(_) = self.stage {
            self.begin_sync();
        }
        // A write that waits for room goes first.
        let was_sync = self.syncing;
        ready!(self.poll_idle(cx)).map_err(io::Error::from)?;
        if was_sync { Poll::Ready(Ok(())) } else { self.poll_flush(cx) }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.writes.clear();
        self.file.mount.requests.sweep();
    }
}

impl WriteBehind {
    async fn write(&mut self, offset: u64, data: List) -> Result<(), Error> {
        if self.writes.len() == WINDOW {
            self.wait().await?;
        }
        let (requests, stable) = (&self.file.mount.requests, Stability::Unstable);
        let command = |done| FileCommand::Write { offset, data, stable, done };
        self.writes.push_back(requests.begin(self.file.handle(), command).await?);
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), Error> {
        while !self.writes.is_empty() {
            self.wait().await?;
        }
        self.file.sync().await
    }

    async fn wait(&mut self) -> Result<(), Error> {
        match self.writes.pop_front() {
            Some(answer) => answer.await.map_err(|_| Error::Closed)?.map_err(io_error("writing")),
            None => Ok(()),
        }
    }
}
