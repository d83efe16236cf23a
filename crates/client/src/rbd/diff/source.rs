//! Sources of changes: the objects of an image and its parents, and object maps.

use super::super::header::{Header, ImageDetails};
use super::super::maps::map_object;
use super::super::snapshot::Snapshot;
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_ceph::cls::rbd::{ObjectMap, ObjectMapLoad, image_flag};
use onego_ceph::outputs::CloneInfos;
use onego_ceph::rbd::{DataNames, Features, Layout};
use onego_ceph::types::NOSNAP;
use onego_rbd::diff::{
    DiffRange, DiffScope, FastDiff, ObjectChange, ObjectRun, image_ranges, join_ranges, object_runs,
};
use std::pin::Pin;

const MAX_DEPTH: u32 = 64;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImagePoint {
    /// Number of the snapshot, or [`NOSNAP`].
    pub(crate) snap: u64,
    pub(crate) name: Option<String>,
    pub(crate) size: u64,
    pub(crate) is_protected: bool,
    /// Visible bytes of the parent.
    overlap: u64,
    flags: u64,
}

impl ImagePoint {
    pub(crate) fn head(details: &ImageDetails) -> Self {
        let info = &details.info;
        let overlap = info.parent.as_ref().map_or(0, |parent| parent.overlap);
        Self { snap: NOSNAP, name: None, size: info.size, is_protected: false, overlap, flags: details.flags }
    }

    pub(crate) fn named(details: &ImageDetails, name: &str) -> Result<Self, Error> {
        details.snapshot(name).map(Self::of)
    }

    pub(crate) fn snapshots(details: &ImageDetails) -> impl Iterator<Item = Self> {
        details.snapshots.iter().filter(|snapshot| snapshot.is_users()).map(Self::of)
    }

    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            snap: snapshot.id,
            name: Some(snapshot.name.clone()),
            size: snapshot.size,
            is_protected: snapshot.is_protected(),
            overlap: snapshot.overlap.unwrap_or(0),
            flags: snapshot.flags,
        }
    }
}

pub(super) struct ChangedObjects {
    pool: Pool,
    names: DataNames,
    layout: Layout,
    scope: DiffScope,
    parent: Option<Parent>,
}

struct Parent {
    source: Box<ChangedObjects>,
    /// Bytes from the start.
    overlap: u64,
}

impl ChangedObjects {
    pub(super) async fn new(
        header: &Header,
        details: &ImageDetails,
        scope: DiffScope,
    ) -> Result<Self, Error> {
        let pool = header.data_pool(&details.info).await?;
        let names = details.info.data_names();
        Ok(Self { pool, names, layout: details.info.layout, scope, parent: None })
    }

    /// Like [`new`](Self::new), with the changes of the image's parent at the end of the diff.
    pub(super) async fn with_parent(
        self,
        header: &Header,
        details: &ImageDetails,
        to: &ImagePoint,
    ) -> Result<Self, Error> {
        self.with_parents(header, details, to, MAX_DEPTH).await
    }

    fn with_parents<'a>(
        mut self,
        header: &'a Header,
        details: &'a ImageDetails,
        to: &'a ImagePoint,
        depth: u32,
    ) -> Pin<Box<dyn Future<Output = Result<Self, Error>> + Send + 'a>> {
        Box::pin(async move {
            let Some(origin) = details.origin.as_ref().filter(|_| to.overlap > 0) else { return Ok(self) };
            if depth == 0 {
                return Err(Error::Invalid(format!(
                    "{} has more than {MAX_DEPTH} parents",
                    header.describe()
                )));
            }
            let pool = header.pool.cluster().pool_by_id(origin.pool).await?.in_namespace(&origin.namespace);
            let parent = Header::with_id(&pool, &origin.image_id).await?;
            let known = parent.details().await?;
            let snapshot = known.snapshots.iter().find(|snapshot| snapshot.id == origin.snap);
            let missing =
                || Error::NotFound { what: format!("snapshot {} of {}", origin.snap, parent.describe()) };
            let point = ImagePoint::of(snapshot.ok_or_else(missing)?);
            let scope = DiffScope { from: 0, to: point.snap, ..self.scope };
            let source = Self::new(&parent, &known, scope).await?;
            let source = Box::new(source.with_parents(&parent, &known, &point, depth - 1).await?);
            self.parent = Some(Parent { source, overlap: to.overlap });
            Ok(self)
        })
    }

    /// Returns the number of bytes in a set of objects.
    pub(super) fn stripe(&self) -> u64 {
        self.layout.object_size() * self.layout.stripe_count()
    }

    pub(super) fn changed(&self, offset: u64, length: u64) -> Changes<'_> {
        Box::pin(async move {
            let mut ranges = Vec::new();
            for extent in self.layout.map(offset, length) {
                let name = self.names.name(extent.object).to_string();
                let clones = match self.pool.clones(&name).await {
                    Err(Error::NotFound { .. }) => CloneInfos::default(),
                    other => other?,
                };
                let runs = object_runs(&clones, self.scope, self.layout.object_size());
                if runs.is_empty() {
                    ranges.extend(self.shown_of_parent(extent.object, extent.offset, extent.length).await?);
                } else {
                    ranges.extend(image_ranges(&self.layout, &extent, &runs));
                }
            }
            Ok(join_ranges(ranges))
        })
    }

    /// Returns whether the stripe at this byte may have changed, according to the object maps. Most stripes of a
    /// large image have not, and are skipped without a request.
    pub(super) fn may_have_changed(&self, maps: &FastDiff, offset: u64) -> bool {
        let objects = self.layout.stripe_count();
        let first = offset / self.stripe() * objects;
        (first..first + objects).any(|object| match maps.change(object) {
            ObjectChange::Unchanged => false,
            ObjectChange::Absent => self.parent.is_some(),
            ObjectChange::Written | ObjectChange::Removed => true,
        })
    }

    pub(super) async fn changed_by_maps(
        &self,
        maps: &FastDiff,
        offset: u64,
        length: u64,
    ) -> Result<Vec<DiffRange>, Error> {
        let mut ranges = Vec::new();
        for extent in self.layout.map(offset, length) {
            let exists = match maps.change(extent.object) {
                ObjectChange::Unchanged => continue,
                ObjectChange::Absent => {
                    ranges.extend(self.shown_of_parent(extent.object, extent.offset, extent.length).await?);
                    continue;
                }
                ObjectChange::Written => true,
                ObjectChange::Removed => false,
            };
            let run = ObjectRun { offset: extent.offset, length: extent.length, exists };
            ranges.extend(image_ranges(&self.layout, &extent, &[run]));
        }
        Ok(join_ranges(ranges))
    }

    async fn shown_of_parent(&self, object: u64, offset: u64, length: u64) -> Result<Vec<DiffRange>, Error> {
        let Some(parent) = &self.parent else { return Ok(Vec::new()) };
        let mut ranges = Vec::new();
        for range in self.layout.ranges(object, offset, length) {
            let end = range.end.min(parent.overlap);
            if range.start < end {
                // The parent may have another layout.
                let shown = parent.source.changed(range.start, end - range.start).await?;
                // Holes of the parent show as holes.
                ranges.extend(shown.into_iter().filter(|range| range.exists));
            }
        }
        Ok(ranges)
    }
}

type Changes<'a> = Pin<Box<dyn Future<Output = Result<Vec<DiffRange>, Error>> + Send + 'a>>;

/// Reads the object maps; `None` if they are not valid.
pub(super) async fn fast_diff(
    header: &Header,
    details: &ImageDetails,
    from: Option<&ImagePoint>,
    to: &ImagePoint,
) -> Result<Option<FastDiff>, Error> {
    if !details.info.features.contains(Features::FAST_DIFF) {
        return Ok(None);
    }
    let objects = |point: &ImagePoint| details.info.layout.objects(point.size);
    let Some(from) = from else {
        let map = object_map(header, to, objects(to)).await?;
        return Ok(map.map(|map| FastDiff::from_nothing(&map, objects(to))));
    };
    let Some(map) = object_map(header, from, objects(from)).await? else { return Ok(None) };
    let mut diff = FastDiff::from_snapshot(&map, objects(from));
    let between = details
        .snapshots
        .iter()
        .map(ImagePoint::of)
        .filter(|point| (from.snap + 1..to.snap).contains(&point.snap));
    for point in between {
        let Some(map) = object_map(header, &point, objects(&point)).await? else { return Ok(None) };
        diff = diff.next(&map, objects(&point), false);
    }
    let Some(map) = object_map(header, to, objects(to)).await? else { return Ok(None) };
    Ok(Some(diff.next(&map, objects(to), true)))
}

/// Reads the object map at a snapshot or at present, if it is valid and complete.
async fn object_map(header: &Header, point: &ImagePoint, objects: u64) -> Result<Option<ObjectMap>, Error> {
    if point.flags & (image_flag::FAST_DIFF_INVALID | image_flag::OBJECT_MAP_INVALID) != 0 {
        return Ok(None);
    }
    match header.pool.call(&map_object(&header.id, point.snap), &ObjectMapLoad {}).await {
        Err(Error::NotFound { .. }) => Ok(None),
        other => Ok(Some(other?).filter(|map| map.len() >= objects)),
    }
}
