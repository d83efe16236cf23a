use super::super::header::Header;
use super::super::image::Image;
use super::super::resize::resize;
use super::super::snapshots;
use crate::ceph::error::Error;
use crate::rados::Pool;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use onego_buf::List;
use onego_rbd::stream::{DiffEvent, DiffRecord};

const PIECE: u64 = 1 << 20;

const ZEROS: u64 = 32 << 20;

/// Requests in flight: enough for any network, with little memory.
const WINDOW: usize = 32;

/// Size of zeroed blocks that become holes, in bytes: the block size of file systems.
pub(super) const GRAIN: u64 = 4096;

/// An image to which diffs are applied in sequence.
///
/// The image is open while data is written, and closed while its header is changed.
pub(super) struct DiffTarget {
    pool: Pool,
    name: String,
    grain: u64,
    image: Option<Image>,
    writing: FuturesOrdered<BoxFuture<'static, Result<(), Error>>>,
    /// No request in flight exceeds this offset.
    written_to: u64,
    at: u64,
    to: Option<String>,
    is_protected: bool,
    /// Whether the diff was partially applied before, so that its snapshot may exist.
    is_resumed: bool,
}

impl DiffTarget {
    /// Creates the target for the image called `name`. Zeroed blocks of `grain` bytes are not written.
    pub(super) fn new(pool: &Pool, name: &str, grain: u64) -> Self {
        Self {
            pool: pool.clone(),
            name: name.to_owned(),
            grain: grain.max(1),
            image: None,
            writing: FuturesOrdered::new(),
            written_to: 0,
            at: 0,
            to: None,
            is_protected: false,
            is_resumed: false,
        }
    }

    pub(super) fn resume(&mut self) {
        self.is_resumed = true;
    }

    /// Processes an event that was applied before, without applying it again.
    pub(super) fn pass_over(&mut self, event: &DiffEvent) {
        match event {
            DiffEvent::Record(DiffRecord::To(name)) => self.to = Some(name.clone()),
            DiffEvent::Record(DiffRecord::Protected(is)) => self.is_protected = *is,
            DiffEvent::Record(DiffRecord::Write { offset, .. }) => self.at = *offset,
            DiffEvent::Record(DiffRecord::End) => (self.to, self.is_protected) = (None, false),
            DiffEvent::Record(_) => {}
            DiffEvent::Data(data) => self.at += data.len() as u64,
        }
    }

    pub(super) async fn apply(&mut self, event: DiffEvent) -> Result<(), Error> {
        match event {
            DiffEvent::Record(DiffRecord::From(name)) => {
                if !self.has_snapshot(&name).await? {
                    return Err(Error::NotFound {
                        what: format!("snapshot {name} of {}, at which the diff starts,", self.name),
                    });
                }
            }
            DiffEvent::Record(DiffRecord::To(name)) => {
                if !self.is_resumed && self.has_snapshot(&name).await? {
                    return Err(Error::Exists {
                        what: format!("snapshot {name} of {}, at which the diff ends,", self.name),
                    });
                }
                self.to = Some(name);
            }
            DiffEvent::Record(DiffRecord::Protected(is)) => self.is_protected = is,
            DiffEvent::Record(DiffRecord::Size(size)) => self.resize(size).await?,
            DiffEvent::Record(DiffRecord::Write { offset, .. }) => self.at = offset,
            DiffEvent::Record(DiffRecord::Zero { offset, length }) => self.zero(offset, length).await?,
            DiffEvent::Record(DiffRecord::End) => self.end().await?,
            DiffEvent::Data(data) => self.write(data).await?,
        }
        Ok(())
    }

    // Takes `&mut self` because the writes in flight are not `Sync`, so a future with a shared borrow would not be
    // `Send`.
    async fn has_snapshot(&mut self, name: &str) -> Result<bool, Error> {
        let details = Header::named(&self.pool, &self.name).await?.details().await?;
        Ok(details.snapshot(name).is_ok())
    }

    async fn image(&mut self) -> Result<Image, Error> {
        if let Some(image) = &self.image {
            return Ok(image.clone());
        }
        let image = Image::open(&self.pool, &self.name).await?;
        Ok(self.image.insert(image).clone())
    }

    async fn resize(&mut self, size: u64) -> Result<(), Error> {
        if self.image().await?.size() == size {
            return Ok(());
        }
        self.close().await?;
        resize(&self.pool, &self.name, size, |_, _| ()).await
    }

    /// Waits until a request to this range can start: the limit in flight is not reached, and none overlaps.
    async fn make_room(&mut self, offset: u64, length: u64) -> Result<(), Error> {
        let most = if offset < self.written_to { 0 } else { WINDOW - 1 };
        while self.writing.len() > most {
            self.writing.next().await.transpose()?;
        }
        self.written_to = self.written_to.max(offset + length);
        Ok(())
    }

    pub(super) async fn drain(&mut self) -> Result<(), Error> {
        while let Some(written) = self.writing.next().await {
            written?;
        }
        self.written_to = 0;
        Ok(())
    }

    async fn zero(&mut self, offset: u64, length: u64) -> Result<(), Error> {
        let image = self.image().await?;
        let mut done = 0;
        while done < length {
            let (at, now) = (offset + done, (length - done).min(ZEROS));
            self.make_room(at, now).await?;
            let image = image.clone();
            self.writing.push_back(Box::pin(async move { image.write_zeroes(at, now).await }));
            done += now;
        }
        Ok(())
    }

    /// Writes the next data; zeroed blocks become holes.
    async fn write(&mut self, mut data: List) -> Result<(), Error> {
        let image = self.image().await?;
        while !data.is_empty() {
            let (length, is_zeros) = self.run(&data);
            let (offset, part) = (self.at, data.split_to(length as usize));
            self.at += length;
            if is_zeros {
                self.zero(offset, length).await?;
                continue;
            }
            self.make_room(offset, length).await?;
            let image = image.clone();
            self.writing.push_back(Box::pin(async move { image.write(offset, part).await }));
        }
        Ok(())
    }

    /// Returns the length of the next run of uniform blocks, and whether they are zeros.
    fn run(&self, data: &List) -> (u64, bool) {
        let most = (data.len() as u64).min(PIECE);
        let block = |at: u64| {
            let length = self.grain.min(most - at);
            (length, data.slice(at as usize, length as usize).is_zeros())
        };
        let (mut length, is_zeros) = block(0);
        while length < most {
            let (next, is_next_zeros) = block(length);
            if is_next_zeros != is_zeros {
                break;
            }
            length += next;
        }
        (length, is_zeros)
    }

    /// Ends the diff: makes its writes durable, and creates its snapshot.
    async fn end(&mut self) -> Result<(), Error> {
        self.close().await?;
        let (to, is_protected) = (self.to.take(), std::mem::take(&mut self.is_protected));
        let was_resumed = std::mem::take(&mut self.is_resumed);
        let Some(name) = to else { return Ok(()) };
        if was_resumed && self.has_snapshot(&name).await? {
            return Ok(());
        }
        snapshots::create(&self.pool, &self.name, &name).await?;
        if is_protected {
            snapshots::protect(&self.pool, &self.name, &name).await?;
        }
        Ok(())
    }

    pub(super) async fn close(&mut self) -> Result<(), Error> {
        let drained = self.drain().await;
        let closed = match self.image.take() {
            Some(image) => image.close().await,
            None => Ok(()),
        };
        drained?;
        closed
    }
}
