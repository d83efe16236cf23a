//! What changed of an image between two snapshots, or since a snapshot, or since it was made.

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

/// Stripes that are asked for at a time: one object each, as a rule.
const DEPTH: usize = 64;

/// A snapshot at which a diff begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffEnd {
    /// A snapshot that a user made, by its name.
    Name(String),
    /// A snapshot of any kind, by its number.
    Id(u64),
}

/// What is compared, and how closely.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// The snapshot that it begins at; none: it begins with nothing.
    pub from: Option<DiffEnd>,
    /// The snapshot that it ends at; none: the image as it is.
    pub to: Option<DiffEnd>,
    /// An object of which anything changed counts as changed in whole. Where the image has maps of its objects that can be
    /// relied on, they alone are read ("fast diff").
    pub whole_object: bool,
    /// Leaves out what an image that is a clone shows of its parent.
    pub without_parent: bool,
}

impl DiffOptions {
    /// From nothing to the image as it is.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, beginning at a snapshot.
    pub fn from(self, snapshot: impl Into<String>) -> Self {
        Self { from: Some(DiffEnd::Name(snapshot.into())), ..self }
    }

    /// The same, beginning at the snapshot with a number.
    pub fn from_id(self, snapshot: u64) -> Self {
        Self { from: Some(DiffEnd::Id(snapshot)), ..self }
    }

    /// The same, ending at a snapshot.
    pub fn to(self, snapshot: impl Into<String>) -> Self {
        Self { to: Some(DiffEnd::Name(snapshot.into())), ..self }
    }

    /// The same, ending at the snapshot with a number.
    pub fn to_id(self, snapshot: u64) -> Self {
        Self { to: Some(DiffEnd::Id(snapshot)), ..self }
    }

    /// The same, of whole objects.
    pub fn of_whole_objects(self) -> Self {
        Self { whole_object: true, ..self }
    }

    /// The same, without what is the parent's.
    pub fn without_parent(self) -> Self {
        Self { without_parent: true, ..self }
    }
}

/// The ranges of an image that changed, in order. Many objects are asked at a time.
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
    /// Where the maps of its objects can be relied on.
    fast: Option<Arc<FastDiff>>,
    /// Ranges that end before this byte, or there, are left out.
    start: u64,
    /// Everything before this byte was asked for.
    asked: u64,
    asking: FuturesOrdered<BoxFuture<'static, Result<Vec<DiffRange>, Error>>>,
    ready: VecDeque<DiffRange>,
    from: Option<ImagePoint>,
    to: ImagePoint,
}

impl Diff {
    /// Compares the image called `name` with itself. Fails with [`Error::Invalid`] if the diff would end before it begins.
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

    /// Bytes of the image at the diff's end.
    pub fn size(&self) -> u64 {
        self.to.size
    }

    /// Do maps of objects tell all, so that no object is asked?
    pub fn is_fast(&self) -> bool {
        self.fast.is_some()
    }

    pub(crate) fn points(&self) -> (Option<&ImagePoint>, &ImagePoint) {
        (self.from.as_ref(), &self.to)
    }

    /// Leaves out everything before a byte. A range that goes over it comes in whole.
    pub fn skip_to(&mut self, offset: u64) {
        let stripe = self.source.stripe();
        self.asked = self.asked.max(offset / stripe * stripe);
        self.start = offset;
    }

    /// The next range that changed. `None`: there are no more.
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

    /// Asks ahead, a stripe at a time: ranges of different stripes are not joined.
    fn ask(&mut self) {
        // Nothing differs between a snapshot and itself.
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
