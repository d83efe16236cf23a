//! Files read and written in order: reads go ahead of the reader, and writes behind the writer.

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

/// Reads or writes that are under way at a time: enough for a fast network, and 16 MiB with calls of 1 MiB.
const WINDOW: usize = 16;

/// Something that takes its state along and gives it back with its result.
type Step<S, T> = Pin<Box<dyn Future<Output = (S, Result<T, Error>)> + Send>>;

/// State that is at hand, or with the step that works on it.
enum ReaderStage<S, T> {
    Idle(S),
    Busy(Step<S, T>),
    /// A step panicked.
    Lost,
}

impl<S: Send + 'static, T> ReaderStage<S, T> {
    /// Begins a step. The one before must have ended.
    fn begin(&mut self, step: impl FnOnce(S) -> Step<S, T>) {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Idle(state) => Self::Busy(step(state)),
            busy => busy,
        };
    }

    /// Waits for the step that was begun; `None`: there is none.
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
    /// Reads from `offset` on, in order and ahead.
    pub fn reader(&self, offset: u64) -> Reader {
        Reader::new(self.clone(), offset)
    }

    /// Writes from `offset` on, in order, without waiting for each write.
    pub fn writer(&self, offset: u64) -> Writer {
        Writer::new(self.clone(), offset)
    }
}

/// Reads a file in order, ahead of its user.
///
/// It is an [`AsyncRead`] and [`AsyncBufRead`] of the crate `futures-io`, too; `tokio_util::compat` makes those of tokio of
/// them. To be polled by these traits takes one small allocation for each READ, of up to 1 MiB. Dropping it gives up the
/// reads that are under way.
pub struct Reader {
    stage: ReaderStage<Ahead, Option<List>>,
    /// Bytes that were received and not yet taken.
    chunk: List,
}

/// The reads of a [`Reader`].
struct Ahead {
    file: File,
    /// Where the next read begins.
    offset: u64,
    reads: VecDeque<oneshot::Receiver<BytesOutcome>>,
    ended: bool,
}

impl Reader {
    fn new(file: File, offset: u64) -> Self {
        let ahead = Ahead { file, offset, reads: VecDeque::new(), ended: false };
        Self { stage: ReaderStage::Idle(ahead), chunk: List::new() }
    }

    /// The next bytes of the file, as many as one READ gave. `None`: it ends here.
    pub async fn next(&mut self) -> Result<Option<List>, Error> {
        poll_fn(|cx| self.poll_chunk(cx)).await?;
        Ok((!self.chunk.is_empty()).then(|| std::mem::take(&mut self.chunk)))
    }

    /// Sees to it that there are bytes to be taken, unless the file ends here.
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

impl Drop for Ahead {
    /// Cancels the reads that nobody will take.
    fn drop(&mut self) {
        self.reads.clear();
        self.file.mount.requests.sweep();
    }
}

impl Ahead {
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

/// Writes a file in order, and waits only when much is under way.
///
/// It is an [`AsyncWrite`] of the crate `futures-io`, too, which copies what it is given: a flush or close makes everything
/// durable. `tokio_util::compat` makes one of tokio of it. What is written is durable only after [`finish`](Self::finish), a
/// flush or a close, each of which also gives the errors of writes before. Dropping it before cancels the writes that are
/// under way: each of them may be applied, or not.
pub struct Writer {
    stage: ReaderStage<Behind, ()>,
    offset: u64,
    /// Bytes of a WRITE.
    limit: usize,
    /// The step that was begun last makes everything durable.
    syncing: bool,
}

/// The writes of a [`Writer`].
struct Behind {
    file: File,
    writes: VecDeque<oneshot::Receiver<DoneOutcome>>,
}

impl Writer {
    fn new(file: File, offset: u64) -> Self {
        let limit = file.mount.limits().write;
        Self {
            stage: ReaderStage::Idle(Behind { file, writes: VecDeque::new() }),
            offset,
            limit,
            syncing: false,
        }
    }

    /// Writes the next bytes. An error may be that of an earlier write.
    pub async fn write(&mut self, data: impl Into<List>) -> Result<(), Error> {
        poll_fn(|cx| self.poll_idle(cx)).await?;
        self.begin_write(data.into());
        poll_fn(|cx| self.poll_idle(cx)).await
    }

    /// Leaves bytes of the file as they are: the next write goes after them.
    pub fn skip(&mut self, bytes: u64) {
        self.offset += bytes;
    }

    /// Where the next bytes go.
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

    /// Waits for the step that was begun last.
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
            // Mostly there is room, and it is under way now. If it must wait, the next call waits for it.
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

impl Drop for Behind {
    /// Cancels the writes that are under way.
    fn drop(&mut self) {
        self.writes.clear();
        self.file.mount.requests.sweep();
    }
}

impl Behind {
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
