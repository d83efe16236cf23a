use super::ancestors::Generation;
use super::header::{ImageInfo, describe};
use crate::ceph::commands::CephCommand;
use crate::ceph::done::{OTHER_KIND, ReplyTo};
use crate::ceph::error::{Errno, Error};
use crate::ceph::image_key::{ImageControl, ImageKey};
use crate::ceph::operator::{OpenedImage, Watched};
use crate::encryption_error::EncryptionError;
use crate::rados::{Cluster, Pool};
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::types::NOSNAP;
use onego_rbd::{Ancestor, AncestorData, DataObjects, Encryption, ImageFacts, ImageView, Io, Outcome};
use std::fmt;
use std::iter;
use std::sync::Arc;

/// An open image: a block device.
///
/// Requests may have any offset and any size up to [`MAX_IO`](super::MAX_IO), and any number may be in flight;
/// overlapping concurrent requests may be applied in any order. An open image is watched: it learns of size changes,
/// and other clients see that it is in use.
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
/// Cheap to clone; dropping the last clone closes the image.
#[derive(Clone)]
pub struct Image {
    open: Arc<Open>,
}

struct Open {
    pool: Pool,
    info: ImageInfo,
    /// Snapshot shown, or `NOSNAP`.
    snap: u64,
    key: ImageKey,
    view: Arc<ImageView>,
    is_read_only: bool,
    is_watched: bool,
    moves_here: bool,
    is_encrypted: bool,
    is_closed: bool,
}

/// Offset in an OSD's reply to a failed comparison: the rest is the position of the first difference (`MAX_ERRNO`).
const DIFFERENCE: i32 = 4095;

pub(super) enum OpenAs {
    ReadWrite(Watched),
    ReadOnly,
    /// Read-only without a watch, so that other clients do not see the image in use.
    Unwatched,
}

impl Image {
    /// Opens an image to remove or resize it. The ancestors of a clone stay unknown, so changes do not copy their
    /// data.
    pub(super) async fn open_bare(pool: &Pool, info: ImageInfo) -> Result<Self, Error> {
        let facts = info.facts(pool, NOSNAP);
        Self::start(pool, info, facts, OpenAs::ReadWrite(Watched::default())).await
    }

    pub(super) async fn start(
        pool: &Pool,
        info: ImageInfo,
        facts: ImageFacts,
        open_as: OpenAs,
    ) -> Result<Self, Error> {
        let (is_read_only, watched) = match open_as {
            OpenAs::ReadWrite(watched) => (false, Some(watched)),
            OpenAs::ReadOnly => (true, Some(Watched::default())),
            OpenAs::Unwatched => (true, None),
        };
        let is_watched = watched.is_some();
        let moves_here = watched.as_ref().is_some_and(|watched| watched.migration.is_some());
        let cluster = pool.cluster();
        let ((opened, named), (done, ready)) = (oneshot::channel(), oneshot::channel());
        let done = ReplyTo::Future(done);
        let (snap, is_encrypted) = (facts.data.snap, facts.data.encryption.is_some());
        let facts = Box::new(facts);
        cluster.send(CephCommand::OpenImage { facts, watched, opened, done }).await?;
        let OpenedImage { key, view } = cluster.answer(named).await?;
        let pool = pool.clone();
        let open = Open {
            pool,
            info,
            snap,
            key,
            view,
            is_watched,
            is_read_only,
            moves_here,
            is_encrypted,
            is_closed: false,
        };
        let image = Self { open: Arc::new(open) };
        match image.open.pool.cluster().answer(ready).await? {
            Ok(_) => Ok(image),
            Err(Error::Image(onego_rbd::Error::Removed)) => {
                Err(Error::NotFound { what: describe(image.pool(), &image.info().name) })
            }
            Err(error) => Err(error),
        }
    }

    /// Wraps an image that is already open, and stays open when this handle is dropped.
    pub(super) fn attached(pool: Pool, info: ImageInfo, opened: OpenedImage) -> Self {
        let OpenedImage { key, view } = opened;
        Self {
            open: Arc::new(Open {
                pool,
                info,
                key,
                view,
                snap: NOSNAP,
                is_watched: true,
                is_encrypted: false,
                is_read_only: false,
                moves_here: true,
                is_closed: true,
            }),
        }
    }

    pub(super) async fn reopen_with(
        self,
        own: Arc<Encryption>,
        ancestors: Vec<Generation>,
        opened: Vec<Arc<Encryption>>,
    ) -> Result<Self, Error> {
        let (pool, info, snap) = (self.pool().clone(), self.info().clone(), self.open.snap);
        let open_as = match (self.open.is_watched, self.open.is_read_only) {
            (false, _) => OpenAs::Unwatched,
            (true, true) => OpenAs::ReadOnly,
            // Other clients request changes of the stored data, but this handle shows decrypted data: they take the
            // lock and make the changes themselves.
            (true, false) => OpenAs::ReadWrite(Watched::default()),
        };
        let mut facts = info.facts(&pool, snap);
        let encryptions = opened.into_iter().map(Some).chain(iter::repeat(None));
        let mut encrypted: Vec<_> = ancestors.into_iter().zip(encryptions).collect();
        while let Some((ancestor, encryption)) = encrypted.pop() {
            // LUKS headers are not visible, so the child's overlap excludes both its own header and the ancestor's.
            let child = encrypted.last().map_or(Some(&own), |(_, encryption)| encryption.as_ref());
            let start = |encryption: Option<&Arc<Encryption>>| encryption.map_or(0, |it| it.data_offset());
            let overlap = ancestor.overlap.saturating_sub(start(child));
            let overlap = overlap.min(ancestor.info.size.saturating_sub(start(encryption.as_ref())));
            let data = AncestorData::Objects(DataObjects { encryption, ..ancestor.data() });
            facts.parent = Some(Arc::new(Ancestor { data, overlap, parent: facts.parent.take() }));
        }
        facts.data.encryption = Some(own);
        self.close().await?;
        Self::start(&pool, info, facts, open_as).await
    }

    pub(super) fn moves_here(&self) -> bool {
        self.open.moves_here
    }

    pub(super) fn snap(&self) -> u64 {
        self.open.snap
    }

    /// Returns whether the image's encryption is loaded.
    pub fn is_encrypted(&self) -> bool {
        self.open.is_encrypted
    }

    pub(super) fn encryption_error(&self, source: EncryptionError) -> Error {
        Error::Encryption { image: describe(self.pool(), &self.info().name), source }
    }

    /// Returns the image's pool.
    pub fn pool(&self) -> &Pool {
        &self.open.pool
    }

    /// Returns the image's properties from when it was opened.
    pub fn info(&self) -> &ImageInfo {
        &self.open.info
    }

    /// Returns the current size of the image in bytes.
    pub fn size(&self) -> u64 {
        self.open.view.size()
    }

    /// Returns whether the image accepts writes: it is not open read-only, and Onego maintains all of its features.
    pub fn is_writable(&self) -> bool {
        self.check_writable().is_ok()
    }

    /// Fails with the reason if the image does not accept writes.
    pub fn check_writable(&self) -> Result<(), Error> {
        if self.open.is_read_only {
            return Err(Error::Invalid("the image is open read-only".into()));
        }
        let open = &self.open;
        if open.moves_here { Ok(()) } else { open.info.check_writable() }
    }

    #[cfg(feature = "block")]
    pub(crate) fn key(&self) -> ImageKey {
        self.open.key
    }

    pub(crate) fn admit(&self, io: &Io) -> Result<ImageKey, Error> {
        if io.writes() {
            self.check_writable()?;
        }
        io.check(self.size())?;
        Ok(self.open.key)
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.open.pool.cluster()
    }

    async fn submit(&self, io: Io) -> Result<Outcome, Error> {
        let image = self.admit(&io)?;
        let (done, answer) = oneshot::channel();
        let done = ReplyTo::Future(done);
        self.cluster().send(CephCommand::Image { image, io, done }).await?;
        self.cluster().answer(answer).await?
    }

    pub(super) async fn control(&self, control: impl FnOnce(ReplyTo) -> ImageControl) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let control = control(ReplyTo::Future(done));
        self.cluster().send(CephCommand::ControlImage { image: self.open.key, control }).await?;
        self.cluster().answer(answer).await?.map(drop)
    }

    /// Takes the exclusive lock, and keeps it until [`unlock`](Self::unlock): requests of other clients for it are
    /// refused. Call this before changing the image other than by writes. Waits for an owner that releases the lock,
    /// and breaks the lock of a dead one. No-op for an image without the feature exclusive-lock.
    ///
    /// Fails with [`Error::Image`] if the owner keeps the lock.
    pub async fn lock(&self) -> Result<(), Error> {
        self.check_writable()?;
        self.control(ImageControl::Lock).await
    }

    /// Takes the exclusive lock for an operation that ends when the guard is dropped. Other clients that request the
    /// lock wait until then.
    pub(super) async fn hold_lock(&self) -> Result<LockHold<'_>, Error> {
        self.check_writable()?;
        let (done, answer) = oneshot::channel();
        let control = ImageControl::HoldLock(ReplyTo::Future(done));
        self.cluster().send(CephCommand::ControlImage { image: self.open.key, control }).await?;
        let hold = LockHold(self);
        self.cluster().answer(answer).await??;
        Ok(hold)
    }

    /// Takes the exclusive lock as a write does: another client that requests it gets it. See [`lock`](Self::lock).
    pub async fn own(&self) -> Result<(), Error> {
        self.check_writable()?;
        self.control(ImageControl::Own).await
    }

    /// Fails all further I/O of this image and its clones as if the cluster had blocklisted the client, and waits
    /// until no write is in flight. Call this before breaking the exclusive lock of another user of the same client:
    /// a real blocklist entry would stop all other users of the client too.
    pub async fn fence(&self) -> Result<(), Error> {
        self.control(ImageControl::Fence).await
    }

    /// Releases the exclusive lock after the writes in flight have completed. The next write takes it again.
    pub async fn unlock(&self) -> Result<(), Error> {
        self.control(ImageControl::Unlock).await
    }

    /// Returns whether this client currently owns the exclusive lock.
    pub fn is_lock_owner(&self) -> bool {
        self.open.view.is_lock_owner()
    }

    /// Rereads the header: size, features, snapshots, parent. This happens automatically when another client
    /// announces a header change. A caller that changes the header itself must call this before the next write.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.control(ImageControl::Refresh).await
    }

    /// Returns the image's size in its header, in bytes: more than [`size`](Self::size) during a shrink.
    pub(super) fn header_size(&self) -> u64 {
        self.open.view.header_size()
    }

    pub(super) fn cancel_resize(&self, id: u64) {
        self.cluster().cancel_resize(self.open.key, id);
    }

    /// Pauses the image for an operation of another client until [`resume`](Self::resume): later changes wait, and
    /// the lock is held.
    pub(super) async fn pause(&self, operation: u32, kind: onego_rbd::PauseKind) -> Result<(), Error> {
        self.control(|done| ImageControl::Pause(operation, kind, done)).await
    }

    pub(super) async fn resume(&self) -> Result<(), Error> {
        self.control(ImageControl::Resume).await
    }

    pub(super) async fn copy_up(&self, object: u64) -> Result<(), Error> {
        self.submit(Io::CopyUp { object }).await.map(drop)
    }

    /// Discards a range, which may exceed the end of the image.
    pub(super) async fn trim(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.submit(Io::Trim { offset, length }).await.map(drop)
    }

    /// Reads `length` bytes from byte `offset` on, without a copy, as a list of receive buffers; a length of 0 reads
    /// nothing. Unwritten data reads as zeros. Fails with [`Error::OutOfBounds`] past the end of the image.
    pub async fn read(&self, offset: u64, length: u64) -> Result<List, Error> {
        match self.submit(Io::Read { offset, length }).await? {
            Outcome::Data(bytes) => Ok(bytes),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Fills a buffer with the data from byte `offset` on, and returns it. Large reads are received directly into it.
    /// The buffer is lost if the call fails or the future is dropped. An empty buffer returns at once.
    pub async fn read_into(&self, offset: u64, buffer: impl Into<SegmentMut>) -> Result<SegmentMut, Error> {
        match self.submit(Io::ReadInto { offset, buffer: buffer.into() }).await? {
            Outcome::Buffer(buffer) => Ok(buffer),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Writes at byte `offset`. The data is durable when this returns. If the future is dropped, none, some or all of
    /// it is written.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.submit(Io::Write { offset, data: data.into() }).await.map(drop)
    }

    /// Writes at byte `offset` if the image contains `expected`, of the same length, there; the operation is atomic
    /// for all clients. Returns the position of the first difference, relative to `offset`, or `None` if the data was
    /// written.
    ///
    /// Fails with [`Error::Invalid`] if the range spans more than one object, and with EOPNOTSUPP for an encrypted
    /// image.
    pub async fn compare_and_write(
        &self,
        offset: u64,
        expected: impl Into<List>,
        data: impl Into<List>,
    ) -> Result<Option<u64>, Error> {
        let (expected, data) = (expected.into(), data.into());
        let extents = self.info().layout.map(offset, data.len() as u64);
        if expected.len() != data.len() || extents.len() > 1 {
            return Err(Error::Invalid(
                "the compared and the written data must have the same length and lie in one object".into(),
            ));
        }
        if extents.is_empty() {
            return Ok(None);
        }
        if self.is_encrypted() {
            let what = format!("{} is encrypted: decrypted data cannot be compared", self.info().name);
            return Err(Error::Unmet { what, errno: Errno::OPNOTSUPP });
        }
        match self.submit(Io::CompareAndWrite { offset, expected, data }).await {
            Err(error) if error.errno().0 >= DIFFERENCE => Ok(Some((error.errno().0 - DIFFERENCE) as u64)),
            other => other.map(|_| None),
        }
    }

    /// Discards `length` bytes from byte `offset` on; they read as zeros.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.write_zeroes(offset, length).await
    }

    /// Zeroes `length` bytes from byte `offset` on, and frees whole objects.
    pub async fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.submit(Io::Zero { offset, length }).await.map(drop)
    }

    /// Waits until all writes submitted before are durable.
    pub async fn flush(&self) -> Result<(), Error> {
        self.submit(Io::Flush).await.map(drop)
    }

    /// Closes this clone of the image. For the last clone, waits until the cluster sees that the image is not in use;
    /// dropping it does the same without waiting.
    pub async fn close(self) -> Result<(), Error> {
        let Some(mut open) = Arc::into_inner(self.open) else { return Ok(()) };
        let (done, answer) = oneshot::channel();
        open.is_closed = true;
        open.pool.cluster().close_image(open.key, Some(ReplyTo::Future(done)));
        answer.await.map_err(|_| Error::Closed)?.map(drop)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.is_closed {
            self.pool.cluster().close_image(self.key, None);
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

pub(super) struct LockHold<'a>(&'a Image);

impl Drop for LockHold<'_> {
    fn drop(&mut self) {
        self.0.cluster().release_hold(self.0.open.key);
    }
}
