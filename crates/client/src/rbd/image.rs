use super::header::{ImageInfo, info};
use crate::ceph::commands::CephCommand;
use crate::ceph::done::ReplyTo;
use crate::ceph::error::Error;
use crate::ceph::image_io::{IoOp, Shape};
use crate::rados::{Answer, Pool};
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{WatchId, WatchTarget};
use onego_ceph::rbd::header_object;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open image: a block device.
///
/// Requests may be of any size up to [`MAX_IO`](super::MAX_IO) at any offset, and as many at a time as the caller
/// likes; two that overlap and are in flight together may be applied in any order. An image is watched while it is
/// open: it knows when it is resized, and others know that it is in use.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
/// let image = onego::rbd::Image::open(&pool, "disk").await?;
/// image.write(4096, vec![7; 4096]).await?;
/// image.flush().await?;
/// let (bytes, buffer) = (image.read(4096, 4096).await?, vec![0; 4096]);
/// let buffer = image.read_into(4096, buffer).await?;
/// assert_eq!(bytes.to_vec(), &buffer[..]);
/// # Ok(()) }
/// ```
///
/// It is cheap to clone; the image is closed when the last clone is gone.
#[derive(Clone)]
pub struct Image {
    open: Arc<Open>,
}

/// What the clones of an open image share.
struct Open {
    pool: Pool,
    info: ImageInfo,
    shape: Arc<Shape>,
    /// None: the image is only read, and nobody need know.
    watch: Option<WatchId>,
}

impl Image {
    /// Opens the image called `name`.
    pub async fn open(pool: &Pool, name: &str) -> Result<Self, Error> {
        let (info, shape) = look_up(pool, name).await?;
        let target = WatchTarget {
            pool: pool.id(),
            object: header_object(&info.id),
            namespace: pool.namespace().to_owned(),
        };
        let (done, answer) = oneshot::channel();
        let watch = CephCommand::WatchImage { target, shape: Arc::downgrade(&shape), done };
        pool.cluster().send(watch).await?;
        let watch = pool.cluster().answer(answer).await??;
        Ok(Self { open: Arc::new(Open { pool: pool.clone(), info, shape, watch: Some(watch) }) })
    }

    /// Opens the image called `name` for reading alone, as users may who have the capabilities of `rbd-read-only`. It
    /// is not watched: it is not known to be in use, and has the size that it has now.
    pub async fn open_read_only(pool: &Pool, name: &str) -> Result<Self, Error> {
        let (info, shape) = look_up(pool, name).await?;
        Ok(Self { open: Arc::new(Open { pool: pool.clone(), info, shape, watch: None }) })
    }

    /// The pool that it is in.
    pub fn pool(&self) -> &Pool {
        &self.open.pool
    }

    /// What was known of the image when it was opened.
    pub fn info(&self) -> &ImageInfo {
        &self.open.info
    }

    /// Bytes of the image, now.
    pub fn size(&self) -> u64 {
        self.open.shape.size.load(Ordering::Relaxed)
    }

    /// Does it take writes: was it not opened for reading alone, and are its features ones that Onego maintains?
    pub fn is_writable(&self) -> bool {
        self.check_writable().is_ok()
    }

    /// Fails with the reason for which it takes no writes.
    pub fn check_writable(&self) -> Result<(), Error> {
        if self.open.watch.is_none() {
            return Err(Error::Invalid("the image is open for reading alone".into()));
        }
        self.open.info.check_writable()
    }

    #[cfg(feature = "block")]
    pub(crate) fn shape(&self) -> Arc<Shape> {
        Arc::clone(&self.open.shape)
    }

    /// Fails unless the image can do `op`.
    pub(crate) fn admit(&self, op: &IoOp) -> Result<Arc<Shape>, Error> {
        if op.writes() {
            self.check_writable()?;
        }
        op.check(&self.open.shape)?;
        Ok(Arc::clone(&self.open.shape))
    }

    /// Makes a request, which must lie within the image, and waits for its answer.
    async fn submit<T>(&self, op: IoOp, answer: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error>
    where
        Result<T, Error>: Answer,
    {
        let (shape, cluster) = (self.admit(&op)?, self.open.pool.cluster());
        cluster.send(CephCommand::Image { shape, op }).await?;
        cluster.answer(answer).await?
    }

    /// Reads `length` bytes from byte `offset` on, as a list of what was received, without a copy. What was never written
    /// reads as zeros. A length of 0 gives no bytes. Fails with [`Error::OutOfBounds`] behind the end of the image.
    pub async fn read(&self, offset: u64, length: u64) -> Result<List, Error> {
        let (done, answer) = oneshot::channel();
        self.submit(IoOp::read(offset, length, ReplyTo::Future(done)), answer).await
    }

    /// Fills a buffer with the bytes from `offset` on, and gives it back. Large reads are received right into it. If it
    /// fails, or if the future is dropped, the buffer is gone. An empty buffer comes back at once.
    pub async fn read_into(&self, offset: u64, buffer: impl Into<SegmentMut>) -> Result<SegmentMut, Error> {
        let (done, answer) = oneshot::channel();
        self.submit(IoOp::read_into(offset, buffer.into(), ReplyTo::Future(done)), answer).await
    }

    /// Writes at byte `offset`. The bytes are durable when it returns. If the future is dropped, none, some or all of them
    /// are written.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        self.submit(IoOp::write(offset, data.into(), ReplyTo::Future(done)), answer).await
    }

    /// Gives up `length` bytes from `offset` on; they read as zeros.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.write_zeroes(offset, length).await
    }

    /// Makes `length` bytes from `offset` on zeros, which take no room where whole objects are.
    pub async fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        self.submit(IoOp::zero(offset, length, ReplyTo::Future(done)), answer).await
    }

    /// Waits until all writes that were submitted before are durable.
    pub async fn flush(&self) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        self.submit(IoOp::Flush { done: ReplyTo::Future(done) }, answer).await
    }

    /// Closes this clone of the image. If it is the last, it waits until the cluster knows that the image is not in use;
    /// dropping it does the same without waiting.
    pub async fn close(self) -> Result<(), Error> {
        let Some(mut open) = Arc::into_inner(self.open) else { return Ok(()) };
        let Some(watch) = open.watch.take() else { return Ok(()) };
        let answer = open.pool.cluster().end_watch(watch);
        let (outcome, _) = answer.await.map_err(|_| Error::Closed)?;
        Ok(outcome.map(drop)?)
    }
}

/// What has to be known of an image to read it.
async fn look_up(pool: &Pool, name: &str) -> Result<(ImageInfo, Arc<Shape>), Error> {
    let info = info(pool, name).await?;
    info.check_readable()?;
    let shape = Arc::new(info.shape(pool, info.size));
    Ok((info, shape))
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.pool.cluster().unwatch(watch);
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("pool", &self.pool().name())
            .field("name", &self.info().name)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
