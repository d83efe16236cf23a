use super::header::{ImageInfo, info};
use super::io::{IoOp, Shape};
use crate::Error;
use crate::core::{Command, Done, Outcome};
use crate::rados::Pool;
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{WatchId, WatchTarget};
use onego_ceph::rbd::header_object;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open image: a block device of so many bytes.
///
/// Requests may be of any size up to [`MAX_IO`](super::MAX_IO) at any offset, and as many at a time as the caller
/// likes; two that overlap and are in flight together may be applied in any order. An image is watched while it is
/// open: it knows when it is resized, and others know that it is in use.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::Error> {
/// let image = onego::rbd::Image::open(&pool, "disk").await?;
/// image.write(4096, vec![7; 4096]).await?;
/// image.flush().await?;
/// let (bytes, buffer) = (image.read(4096, 4096).await?, vec![0; 4096]);
/// let buffer = image.read_into(4096, buffer).await?;
/// assert_eq!(bytes.to_vec(), &buffer[..]);
/// # Ok(()) }
/// ```
pub struct Image {
    pool: Pool,
    info: ImageInfo,
    shape: Arc<Shape>,
    /// None: the image is only read, and nobody need know.
    watch: Option<WatchId>,
}

impl Image {
    /// Opens the image called `name`.
    pub async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        let mut image = Self::open_read_only(pool, name).await?;
        let target = WatchTarget {
            pool: pool.id(),
            object: header_object(&image.info.id),
            namespace: pool.namespace().to_owned(),
        };
        let (done, answer) = oneshot::channel();
        let watch = Command::WatchImage { target, shape: Arc::downgrade(&image.shape), done };
        pool.cluster().send(watch).await?;
        image.watch = Some(pool.cluster().answer(answer).await??);
        Ok(image)
    }

    /// Opens the image called `name` for reading alone, as users may who have the capabilities of `rbd-read-only`. It
    /// is not watched: it is not known to be in use, and has the size that it has now.
    pub async fn open_read_only(pool: &Pool, name: &str) -> Result<Self, Error> {
        let info = info(pool, name).await?;
        info.check_readable()?;
        let shape = Arc::new(info.shape(pool, info.size));
        Ok(Self { pool: pool.clone(), info, shape, watch: None })
    }

    /// The pool that it is in.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What was known of the image when it was opened.
    pub fn info(&self) -> &ImageInfo {
        &self.info
    }

    /// Bytes of the image, now.
    pub fn size(&self) -> u64 {
        self.shape.size.load(Ordering::Relaxed)
    }

    /// Fails unless the image can do `op`.
    pub(crate) fn admit(&self, op: &IoOp) -> Result<Arc<Shape>, Error> {
        if matches!(op, IoOp::Write { .. } | IoOp::Zero { .. }) {
            if self.watch.is_none() {
                return Err(Error::Invalid("the image is open for reading alone".into()));
            }
            self.info.check_writable()?;
        }
        op.check(&self.shape)?;
        Ok(Arc::clone(&self.shape))
    }

    async fn submit(&self, op: IoOp) -> Result<Outcome, Error> {
        request(&self.pool, &self.admit(&op)?, op).await
    }

    /// Reads `length` bytes as a list of what was received, without a copy.
    pub async fn read(&self, offset: u64, length: u64) -> Result<List, Error> {
        match self.submit(IoOp::Read { offset, length }).await? {
            Outcome::List(list) => Ok(list),
            Outcome::Done | Outcome::Buffer(_) => Err(Error::Closed),
        }
    }

    /// Fills a buffer with the bytes from `offset` on. Large reads are received right into it.
    pub async fn read_into(&self, offset: u64, buffer: impl Into<SegmentMut>) -> Result<SegmentMut, Error> {
        match self.submit(IoOp::ReadInto { offset, buffer: buffer.into() }).await? {
            Outcome::Buffer(buffer) => Ok(buffer),
            Outcome::Done | Outcome::List(_) => Err(Error::Closed),
        }
    }

    /// Writes at `offset`. The bytes are durable when it returns.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.submit(IoOp::Write { offset, data: data.into() }).await.map(drop)
    }

    /// Gives up the bytes of a range; they read as zeros.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.submit(IoOp::Zero { offset, length }).await.map(drop)
    }

    /// Makes a range zeros.
    pub async fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.submit(IoOp::Zero { offset, length }).await.map(drop)
    }

    /// Waits until all writes that were submitted before are durable.
    pub async fn flush(&self) -> Result<(), Error> {
        self.submit(IoOp::Flush).await.map(drop)
    }

    /// Closes the image and waits until the cluster knows. Dropping it does the same without waiting.
    pub async fn close(mut self) -> Result<(), Error> {
        let Some(watch) = self.watch.take() else { return Ok(()) };
        let (done, answer) = oneshot::channel();
        self.pool.cluster().send(Command::Unwatch { watch, done: Some(done) }).await?;
        let (outcome, _) = answer.await.map_err(|_| Error::Closed)?;
        Ok(outcome.map(drop)?)
    }
}

/// Makes a request to an image, which it must lie within.
pub(crate) async fn request(pool: &Pool, shape: &Arc<Shape>, op: IoOp) -> Result<Outcome, Error> {
    let answer = start(pool, shape, op).await?;
    pool.cluster().answer(answer).await?
}

/// Begins a request to an image, which it must lie within.
pub(crate) async fn start(
    pool: &Pool,
    shape: &Arc<Shape>,
    op: IoOp,
) -> Result<oneshot::Receiver<Result<Outcome, Error>>, Error> {
    let (done, answer) = oneshot::channel();
    let command = Command::Image { shape: Arc::clone(shape), op, done: Done::Future(done) };
    pool.cluster().send(command).await?;
    Ok(answer)
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.pool.cluster().unwatch(watch);
        }
    }
}
