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
    /// The snapshot that it shows, or `NOSNAP`.
    snap: u64,
    key: ImageKey,
    view: Arc<ImageView>,
    is_read_only: bool,
    is_watched: bool,
    /// It is being moved here, or was when it was opened.
    moves_here: bool,
    is_encrypted: bool,
    is_closed: bool,
}

/// What an OSD's answer to a comparison is above: the rest is where the first difference is (`MAX_ERRNO`).
const DIFFERENCE: i32 = 4095;

/// How an image is open.
pub(super) enum OpenAs {
    ReadWrite(Watched),
    ReadOnly,
    /// The same, and nobody knows that it is open.
    Unwatched,
}

impl Image {
    /// Opens an image to remove or to resize it. Of a clone, the ancestors are unknown: what is changed shows nothing of them.
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

    /// An image that is open already. It stays open when this handle goes.
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

    /// Opens the image anew, with its encryption and that of its nearest ancestors.
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
            // Others ask for changes of what lies there, and this image shows its data: they take the lock and do it themselves.
            (true, false) => OpenAs::ReadWrite(Watched::default()),
        };
        let mut facts = info.facts(&pool, snap);
        let encryptions = opened.into_iter().map(Some).chain(iter::repeat(None));
        let mut encrypted: Vec<_> = ancestors.into_iter().zip(encryptions).collect();
        while let Some((ancestor, encryption)) = encrypted.pop() {
            // Headers do not show through, so the data of the one may be shorter than what the other could show of it.
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

    /// Is it being moved here, or was it when it was opened?
    pub(super) fn moves_here(&self) -> bool {
        self.open.moves_here
    }

    /// The snapshot that it shows, or `NOSNAP`.
    pub(super) fn snap(&self) -> u64 {
        self.open.snap
    }

    /// Is its encryption loaded?
    pub fn is_encrypted(&self) -> bool {
        self.open.is_encrypted
    }

    /// An error of its encryption.
    pub(super) fn encryption_error(&self, source: EncryptionError) -> Error {
        Error::Encryption { image: describe(self.pool(), &self.info().name), source }
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
        self.open.view.size()
    }

    /// Does it take writes: was it not opened for reading alone, and are its features ones that Onego maintains?
    pub fn is_writable(&self) -> bool {
        self.check_writable().is_ok()
    }

    /// Fails with the reason for which it takes no writes.
    pub fn check_writable(&self) -> Result<(), Error> {
        if self.open.is_read_only {
            return Err(Error::Invalid("the image is open for reading alone".into()));
        }
        let open = &self.open;
        if open.moves_here { Ok(()) } else { open.info.check_writable() }
    }

    /// Name of the image at the reactor.
    #[cfg(feature = "block")]
    pub(crate) fn key(&self) -> ImageKey {
        self.open.key
    }

    /// Fails unless the image can do `io`.
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

    /// Makes a request, which must lie within the image, and waits for its answer.
    async fn submit(&self, io: Io) -> Result<Outcome, Error> {
        let image = self.admit(&io)?;
        let (done, answer) = oneshot::channel();
        let done = ReplyTo::Future(done);
        self.cluster().send(CephCommand::Image { image, io, done }).await?;
        self.cluster().answer(answer).await?
    }

    /// Asks for something beside reads and writes.
    pub(super) async fn control(&self, control: impl FnOnce(ReplyTo) -> ImageControl) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let control = control(ReplyTo::Future(done));
        self.cluster().send(CephCommand::ControlImage { image: self.open.key, control }).await?;
        self.cluster().answer(answer).await?.map(drop)
    }

    /// Takes the exclusive lock, and keeps it until [`unlock`](Self::unlock): other clients that ask for it are refused. Who
    /// changes the image in other ways than by writes does this first. It waits for an owner that lets go, and takes the lock
    /// away from one that is dead. Does nothing for an image without the feature exclusive-lock.
    ///
    /// Fails with [`Error::Image`] if the owner keeps the lock.
    pub async fn lock(&self) -> Result<(), Error> {
        self.check_writable()?;
        self.control(ImageControl::Lock).await
    }

    /// Takes the exclusive lock for an operation that ends when the guard is dropped. Other clients that ask for the lock wait
    /// until then.
    pub(super) async fn hold_lock(&self) -> Result<LockHold<'_>, Error> {
        self.check_writable()?;
        let (done, answer) = oneshot::channel();
        let control = ImageControl::HoldLock(ReplyTo::Future(done));
        self.cluster().send(CephCommand::ControlImage { image: self.open.key, control }).await?;
        let hold = LockHold(self);
        self.cluster().answer(answer).await??;
        Ok(hold)
    }

    /// Takes the exclusive lock as a write does: another client that asks for it gets it. See [`lock`](Self::lock).
    pub async fn own(&self) -> Result<(), Error> {
        self.check_writable()?;
        self.control(ImageControl::Own).await
    }

    /// Has all I/O of this image and its clones fail as if the cluster had shut the client out, and waits until no write is in
    /// flight. Who breaks the exclusive lock of another user within the same client does this first: to have the cluster refuse
    /// the client would end every other user, too.
    pub async fn fence(&self) -> Result<(), Error> {
        self.control(ImageControl::Fence).await
    }

    /// Lets the exclusive lock go. Writes that are in flight end first, and the next write takes it again.
    pub async fn unlock(&self) -> Result<(), Error> {
        self.control(ImageControl::Unlock).await
    }

    /// Does this client own the exclusive lock, now?
    pub fn is_lock_owner(&self) -> bool {
        self.open.view.is_lock_owner()
    }

    /// Reads the header again: size, features, snapshots, parent. This happens by itself when another client says that the
    /// header has changed. A caller that changes the header itself does this before the next write.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.control(ImageControl::Refresh).await
    }

    /// Bytes of the image by its header: more than [`size`](Self::size) while a shrink trims.
    pub(super) fn header_size(&self) -> u64 {
        self.open.view.header_size()
    }

    /// Ends a size change whose caller gave up.
    pub(super) fn cancel_resize(&self, id: u64) {
        self.cluster().cancel_resize(self.open.key, id);
    }

    /// Gives an operation for another client the image to itself until [`resume`](Self::resume): later changes wait, and the lock is
    /// held.
    pub(super) async fn pause(&self, operation: u32, kind: onego_rbd::PauseKind) -> Result<(), Error> {
        self.control(|done| ImageControl::Pause(operation, kind, done)).await
    }

    /// Ends a pause. What the operation may have changed is read again.
    pub(super) async fn resume(&self) -> Result<(), Error> {
        self.control(ImageControl::Resume).await
    }

    /// Gives an object what shows of the parent in it.
    pub(super) async fn copy_up(&self, object: u64) -> Result<(), Error> {
        self.submit(Io::CopyUp { object }).await.map(drop)
    }

    /// Gives up what lies in a part, also behind the end of the image.
    pub(super) async fn trim(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.submit(Io::Trim { offset, length }).await.map(drop)
    }

    /// Reads `length` bytes from byte `offset` on, as a list of what was received, without a copy. What was never written
    /// reads as zeros. A length of 0 gives no bytes. Fails with [`Error::OutOfBounds`] behind the end of the image.
    pub async fn read(&self, offset: u64, length: u64) -> Result<List, Error> {
        match self.submit(Io::Read { offset, length }).await? {
            Outcome::Data(bytes) => Ok(bytes),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Fills a buffer with the bytes from `offset` on, and gives it back. Large reads are received right into it. If it
    /// fails, or if the future is dropped, the buffer is gone. An empty buffer comes back at once.
    pub async fn read_into(&self, offset: u64, buffer: impl Into<SegmentMut>) -> Result<SegmentMut, Error> {
        match self.submit(Io::ReadInto { offset, buffer: buffer.into() }).await? {
            Outcome::Buffer(buffer) => Ok(buffer),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Writes at byte `offset`. The bytes are durable when it returns. If the future is dropped, none, some or all of them
    /// are written.
    pub async fn write(&self, offset: u64, data: impl Into<List>) -> Result<(), Error> {
        self.submit(Io::Write { offset, data: data.into() }).await.map(drop)
    }

    /// Writes at byte `offset` if `expected`, as many bytes, are there now. Both are one step to all clients. Gives where, from
    /// `offset` on, the first other byte is; `None`: the bytes are written.
    ///
    /// Fails with [`Error::Invalid`] if the bytes lie in more than one object, and with EOPNOTSUPP of an encrypted image.
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
                "what is compared must be as long as what is written, and lie in one object".into(),
            ));
        }
        if extents.is_empty() {
            return Ok(None);
        }
        if self.is_encrypted() {
            let what = format!("{} is encrypted: what is decrypted is not compared", self.info().name);
            return Err(Error::Unmet { what, errno: Errno::OPNOTSUPP });
        }
        match self.submit(Io::CompareAndWrite { offset, expected, data }).await {
            Err(error) if error.errno().0 >= DIFFERENCE => Ok(Some((error.errno().0 - DIFFERENCE) as u64)),
            other => other.map(|_| None),
        }
    }

    /// Gives up `length` bytes from `offset` on; they read as zeros.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.write_zeroes(offset, length).await
    }

    /// Makes `length` bytes from `offset` on zeros, which take no room where whole objects are.
    pub async fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), Error> {
        self.submit(Io::Zero { offset, length }).await.map(drop)
    }

    /// Waits until all writes that were submitted before are durable.
    pub async fn flush(&self) -> Result<(), Error> {
        self.submit(Io::Flush).await.map(drop)
    }

    /// Closes this clone of the image. If it is the last, it waits until the cluster knows that the image is not in use;
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

/// Keeps the exclusive lock of an image until it is dropped.
pub(super) struct LockHold<'a>(&'a Image);

impl Drop for LockHold<'_> {
    fn drop(&mut self) {
        self.0.cluster().release_hold(self.0.open.key);
    }
}
