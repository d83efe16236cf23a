//! Changes of an image between two snapshots, or since a snapshot or its creation.

mod source;

use super::header::{Header, ImageDetails};
use crate::ceph::error::Error;
use crate::rados::Pool;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
pub use onego_rbd::diff::DiffRange;
use onego_rbd::diff::{DiffScope, FastDiff};
use source::ChangedObjects;
pub(crate) use source::ImagePoint;
use std::collections::VecDeque;
use std::sync::Arc;

/// Stripes queried concurrently: usually one object each.
const DEPTH: usize = 64;

/// A snapshot at which a diff starts or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffEnd {
    /// Name of a user's snapshot.
    Name(String),
    /// Number of a snapshot of any kind.
    Id(u64),
}

/// Range and granularity of a diff.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Snapshot at which the diff starts; `None` means an empty image.
    pub from: Option<DiffEnd>,
    /// Snapshot at which the diff ends; `None` means the present.
    pub to: Option<DiffEnd>,
    /// Reports an object with any change as changed completely. If the image has valid object maps, only those are
    /// read ("fast diff").
    pub whole_object: bool,
    /// Omits data that a clone shows of its parent.
    pub without_parent: bool,
}

impl DiffOptions {
    /// Creates options for a diff from an empty image to the present.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the diff at a snapshot.
    pub fn from(self, snapshot: impl Into<String>) -> Self {
        Self { from: Some(DiffEnd::Name(snapshot.into())), ..self }
    }

    /// Starts the diff at the snapshot with this number.
    pub fn from_id(self, snapshot: u64) -> Self {
        Self { from: Some(DiffEnd::Id(snapshot)), ..self }
    }

    /// Ends the diff at a snapshot.
    pub fn to(self, snapshot: impl Into<String>) -> Self {
        Self { to: Some(DiffEnd::Name(snapshot.into())), ..self }
    }

    /// Ends the diff at the snapshot with this number.
    pub fn to_id(self, snapshot: u64) -> Self {
        Self { to: Some(DiffEnd::Id(snapshot)), ..self }
    }

    /// Reports changes by whole objects.
    pub fn of_whole_objects(self) -> Self {
        Self { whole_object: true, ..self }
    }

    /// Omits the parent's data.
    pub fn without_parent(self) -> Self {
        Self { without_parent: true, ..self }
    }
}

/// The changed ranges of an image, in order. Many objects are queried concurrently.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
/// let options = onego::rbd::DiffOptions::new().from("monday").to("tuesday");
/// let mut diff = onego::rbd::Diff::open(&pool, "disk", &options).await?;
/// while let Some(range) = diff.next().await? {
///     println!("{} bytes at {}, {}", range.length, range.offset, if range.exists { "data" } else { "zeros" });
/// }
/// # Ok(()) }
/// ```
pub struct Diff {
    source: Arc<ChangedObjects>,
    fast: Option<Arc<FastDiff>>,
    /// Ranges that end at or before this byte are omitted.
    start: u64,
    asked: u64,
    asking: FuturesOrdered<BoxFuture<'static, Result<Vec<DiffRange>, Error>>>,
    ready: VecDeque<DiffRange>,
    from: Option<ImagePoint>,
    to: ImagePoint,
}

impl Diff {
    /// Starts a diff of the image called `name`. Fails with [`Error::Invalid`] if the diff would end before it
    /// starts.
    pub async fn open(pool: &Pool, name: &str, options: &DiffOptions) -> Result<Self, Error> {
        let header = Header::named(pool, name).await?;
        let details = header.details().await?;
        Self::of(&header, &details, options).await
    }

    pub(super) async fn of(
        header: &Header,
        details: &ImageDetails,
        options: &DiffOptions,
    ) -> Result<Self, Error> {
        let point = |end: &DiffEnd| match end {
            DiffEnd::Name(name) => ImagePoint::named(details, name),
            DiffEnd::Id(id) => details.snapshot_by_id(*id).map(ImagePoint::of),
        };
        let from = options.from.as_ref().map(point).transpose()?;
        let to = options.to.as_ref().map_or_else(|| Ok(ImagePoint::head(details)), point)?;
        Self::between(header, details, from, to, options).await
    }

    pub(super) async fn between(
        header: &Header,
        details: &ImageDetails,
        from: Option<ImagePoint>,
        to: ImagePoint,
        options: &DiffOptions,
    ) -> Result<Self, Error> {
        if let Some(from) = from.as_ref().filter(|from| from.snap > to.snap) {
            let names = [from, &to].map(|point| point.name.clone().unwrap_or_default());
            return Err(Error::Invalid(format!(
                "snapshot {} of {} is newer than {}: a diff goes from the older to the newer",
                names[0],
                header.describe(),
                names[1]
            )));
        }
        let scope = DiffScope {
            from: from.as_ref().map_or(0, |from| from.snap),
            to: to.snap,
            whole_object: options.whole_object,
        };
        let mut source = ChangedObjects::new(header, details, scope).await?;
        if from.is_none() && !options.without_parent {
            source = source.with_parent(header, details, &to).await?;
        }
        let fast = match options.whole_object {
            true => source::fast_diff(header, details, from.as_ref(), &to).await?,
            false => None,
        };
        Ok(Self {
            source: Arc::new(source),
            fast: fast.map(Arc::new),
            start: 0,
            asked: 0,
            asking: FuturesOrdered::new(),
            ready: VecDeque::new(),
            from,
            to,
        })
    }

    /// Returns the size of the image at the diff's end, in bytes.
    pub fn size(&self) -> u64 {
        self.to.size
    }

    /// Returns whether object maps supply all changes, so that no object is queried.
    pub fn is_fast(&self) -> bool {
        self.fast.is_some()
    }

    pub(crate) fn points(&self) -> (Option<&ImagePoint>, &ImagePoint) {
        (self.from.as_ref(), &self.to)
    }

    /// Skips everything before a byte. A range that spans it is returned in whole.
    pub fn skip_to(&mut self, offset: u64) {
        let stripe = self.source.stripe();
        self.asked = self.asked.max(offset / stripe * stripe);
        self.start = offset;
    }

    /// Returns the next changed range, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<DiffRange>, Error> {
        while self.ready.is_empty() {
            self.ask();
            match self.asking.next().await {
                Some(ranges) => {
                    self.ready.extend(ranges?.into_iter().filter(|range| range.end() > self.start));
                }
                None => return Ok(None),
            }
        }
        self.ask();
        Ok(self.ready.pop_front())
    }

    /// Starts queries, one for each stripe; ranges of different stripes are not merged.
    fn ask(&mut self) {
        // A snapshot does not differ from itself.
        if self.from.as_ref().is_some_and(|from| from.snap == self.to.snap) {
            return;
        }
        while self.asking.len() < DEPTH && self.asked < self.to.size {
            let offset = self.asked;
            let length = self.source.stripe().min(self.to.size - offset);
            self.asked += length;
            if self.fast.as_ref().is_some_and(|maps| !self.source.may_have_changed(maps, offset)) {
                continue;
            }
            let (source, fast) = (Arc::clone(&self.source), self.fast.clone());
            self.asking.push_back(Box::pin(async move {
                match fast {
                    Some(fast) => source.changed_by_maps(&fast, offset, length).await,
                    None => source.changed(offset, length).await,
                }
            }));
        }
    }
}
