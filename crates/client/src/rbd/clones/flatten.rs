use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::details::{Header, ImageDetails};
use crate::rbd::maps::change_map;
use crate::rbd::objects::for_each_object;
use crate::rbd::release::detach_from_parent;
use crate::rbd::view::View;
use onego_ceph::cls::rbd::{CopyUp, ObjectMapUpdate, ParentDetach, Rest, state};
use onego_ceph::rbd::{DataNames, Features};
use onego_ceph::types::{NOSNAP, SnapContext};
use onego_rbd::notify::Operation;

/// Gives a clone all that it shows of its parent, and ends that it is a clone. `progress` is told (done, all) in objects.
///
/// Source: ceph `src/librbd/operation/FlattenRequest.cc`.
pub async fn flatten(pool: &Pool, image: &str, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let header = Header::named(pool, image).await?;
    if header.details().await?.info.parent.is_none() {
        return Err(Error::Invalid(format!("{} has no parent", header.describe())));
    }
    let ask = |id| Operation::Flatten { id };
    header
        .owned_or_asked(ask, progress, async |details, progress| flatten_in(&header, details, progress).await)
        .await
}

async fn flatten_in(
    header: &Header,
    details: &ImageDetails,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    copy_down(header, details, progress).await?;
    end_clone(header, details).await
}

/// Gives a clone and its snapshots all that they show of the parent.
pub(in crate::rbd) async fn copy_down(
    header: &Header,
    details: &ImageDetails,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let copy = CopyDown::new(header, details).await?;
    let objects = details.info.layout.objects(copy.overlap);
    for_each_object(objects, progress, |object| copy.object(object)).await
}

/// Ends that an image, which has everything itself, is a clone.
pub(in crate::rbd) async fn end_clone(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    let deep = details.info.features.contains(Features::DEEP_FLATTEN);
    let others_need_parent = details.snapshots.iter().any(|snapshot| snapshot.overlap.is_some());
    if deep || !others_need_parent {
        detach_from_parent(header, details).await?;
    }
    header.change(&ParentDetach {}).await?;
    header.notify_changed().await
}

/// Copies objects of the parent into a clone.
struct CopyDown<'a> {
    header: &'a Header,
    details: &'a ImageDetails,
    /// The pool of the clone's data.
    data: Pool,
    names: DataNames,
    parent: View,
    /// Bytes that the image shows of the parent.
    head_overlap: u64,
    /// Bytes that the image or a snapshot of it shows of the parent.
    overlap: u64,
}

impl<'a> CopyDown<'a> {
    async fn new(header: &'a Header, details: &'a ImageDetails) -> Result<Self, Error> {
        let head_overlap = details.info.parent.as_ref().map_or(0, |parent| parent.overlap);
        let of_snapshots = details.snapshots.iter().filter_map(|snapshot| snapshot.overlap);
        Ok(Self {
            header,
            details,
            data: header.data_pool(&details.info).await?,
            names: DataNames::new(&details.info.object_prefix),
            parent: View::of_parent(header, details).await?,
            head_overlap,
            overlap: of_snapshots.fold(head_overlap, u64::max),
        })
    }

    async fn object(&self, object: u64) -> Result<(), Error> {
        let name = self.names.name(object).to_string();
        match self.data.stat(&name).await {
            Ok(_) => return Ok(()),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let layout = &self.details.info.layout;
        let length = layout.object_end(object, self.overlap);
        let bytes = self.parent.read_ranges(&layout.ranges(object, 0, length)).await?;
        // What is zeros need not be there: it is zeros without a parent, too.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.mark(object, length).await?;
        // Without snapshots in its context, the copy becomes what all snapshots see.
        self.data.operate_write(&name, WriteOp::new().call(&CopyUp { data: Rest(bytes) })).await?;
        self.hide_what_newer_do_not_show(object, &name, length).await
    }

    /// The image's snapshots, oldest first, and the image itself: number, and bytes that it shows of the parent in an object.
    fn times(&self, object: u64) -> impl Iterator<Item = (u64, u64)> {
        let layout = self.details.info.layout;
        let snapshots =
            self.details.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.overlap.unwrap_or(0)));
        let times = snapshots.chain([(NOSNAP, self.head_overlap)]);
        times.map(move |(snap, overlap)| (snap, layout.object_end(object, overlap)))
    }

    /// Do only snapshots of before the image became smaller have the object?
    fn is_behind_the_end(&self, object: u64) -> bool {
        object >= self.details.info.objects()
    }

    /// An image that became smaller and larger again shows less of the parent than its older snapshots.
    async fn hide_what_newer_do_not_show(&self, object: u64, name: &str, length: u64) -> Result<(), Error> {
        let (mut shown, mut older) = (length, SnapContext::default());
        for (snap, end) in self.times(object) {
            if snap == NOSNAP && self.is_behind_the_end(object) {
                return self.data.with_snap_context(&older).remove(name).await;
            }
            if end < shown {
                self.data.with_snap_context(&older).zero(name, end, shown - end).await?;
                shown = end;
            }
            older.seq = snap;
            older.snaps.insert(0, snap);
        }
        Ok(())
    }

    /// Notes that an object will exist, in the image and in all of its snapshots: where it differs from what the snapshot
    /// before has, and where it does not.
    async fn mark(&self, object: u64, length: u64) -> Result<(), Error> {
        let features = self.details.info.features;
        if !features.contains(Features::OBJECT_MAP) {
            return Ok(());
        }
        let mut before = None;
        for (snap, end) in self.times(object) {
            if snap == NOSNAP && self.is_behind_the_end(object) {
                continue;
            }
            let shown = end.min(before.unwrap_or(length));
            let is_same = before == Some(shown) && features.contains(Features::FAST_DIFF);
            before = Some(shown);
            let state = if is_same { state::EXISTS_CLEAN } else { state::EXISTS };
            let update = ObjectMapUpdate { start: object, end: object + 1, state, current: None };
            // A map of a snapshot may end before the object.
            match change_map(self.header, snap, WriteOp::new().call(&update)).await {
                Err(_) if snap != NOSNAP => {}
                other => other?,
            }
        }
        Ok(())
    }
}
