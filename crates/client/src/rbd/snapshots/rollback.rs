use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::clones::CopyDown;
use crate::rbd::details::{Header, ImageDetails};
use crate::rbd::maps;
use crate::rbd::objects::for_each_object;
use crate::rbd::snapshot::Snapshot;
use crate::rbd::view::View;
use onego_ceph::cls::rbd::SetSize;
use onego_ceph::ops::Op;
use onego_ceph::rbd::DataNames;
use std::cell::RefCell;

/// Makes an image what it was at a user's snapshot. `progress` is told (done, all) in objects.
pub async fn rollback(
    pool: &Pool,
    image: &str,
    name: &str,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    header.owned(async |details| rollback_in(&header, details, details.snapshot(name)?, progress).await).await
}

/// Makes an image what it was at a snapshot.
///
/// Source: ceph `src/librbd/operation/SnapshotRollbackRequest.cc`.
pub(in crate::rbd) async fn rollback_in(
    header: &Header,
    details: &ImageDetails,
    snapshot: &Snapshot,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let info = &details.info;
    let restored = Restored::new(header, details, snapshot).await?;
    if info.parent.is_some() && snapshot.size < info.size {
        CopyDown::new(header, details).await?.cut_objects(snapshot.size).await?;
    }
    let map = maps::rolling_back(header, details, snapshot).await?;
    let objects = info.objects().max(info.layout.objects(snapshot.size));
    // Behind the end of the snapshot nothing was, so that objects there go, too.
    for_each_object(objects, progress, |object| restored.object(object)).await?;
    if snapshot.size != info.size {
        header.change(&SetSize { size: snapshot.size }).await?;
    }
    maps::rolled_back(header, map, &restored.copied.into_inner()).await?;
    header.notify_changed().await
}

/// An image that becomes what it was.
struct Restored<'a> {
    snapshot: &'a Snapshot,
    details: &'a ImageDetails,
    /// The pool of its data, and the same at the snapshot.
    data: Pool,
    before: Pool,
    names: DataNames,
    /// The parent, if the snapshot shows more of it than the image.
    parent: Option<View>,
    /// Objects that got the parent's bytes.
    copied: RefCell<Vec<u64>>,
}

impl<'a> Restored<'a> {
    async fn new(
        header: &Header,
        details: &'a ImageDetails,
        snapshot: &'a Snapshot,
    ) -> Result<Self, Error> {
        let info = &details.info;
        let data = header.data_pool(info).await?;
        let shown = info.parent.as_ref().map_or(0, |parent| parent.overlap);
        let parent = match snapshot.overlap {
            Some(overlap) if overlap > shown => Some(View::of_parent(header, details).await?),
            _ => None,
        };
        Ok(Self {
            snapshot,
            details,
            before: data.at_snapshot(snapshot.id),
            data: data.with_snap_context(&info.state.snap_context),
            names: DataNames::new(&info.object_prefix),
            parent,
            copied: RefCell::default(),
        })
    }

    async fn object(&self, object: u64) -> Result<(), Error> {
        let name = self.names.name(object).to_string();
        if let Some(bytes) = self.inherited(object, &name).await? {
            self.copied.borrow_mut().push(object);
            return self.data.write_full(&name, bytes).await;
        }
        match self.data.change(&name, Op::Rollback { snap: self.snapshot.id }).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What the snapshot shows of the parent in an object, where the image would not show all of it.
    async fn inherited(&self, object: u64, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(parent) = &self.parent else { return Ok(None) };
        let layout = &self.details.info.layout;
        let end = |overlap| layout.object_end(object, overlap);
        let shown = end(self.snapshot.overlap.unwrap_or(0));
        if shown <= end(self.details.info.parent.as_ref().map_or(0, |parent| parent.overlap)) {
            return Ok(None);
        }
        match self.before.stat(name).await {
            Err(Error::NotFound { .. }) => {}
            other => return other.map(|_| None),
        }
        let bytes = parent.read_ranges(&layout.ranges(object, 0, shown)).await?;
        Ok(Some(bytes).filter(|bytes| bytes.iter().any(|byte| *byte != 0)))
    }
}
