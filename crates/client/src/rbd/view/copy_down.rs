use super::own_key::refuse_own_key;
use super::shown::View;
use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::maps::{change_map, invalidate};
use onego_ceph::cls::rbd::{CopyUp, ObjectMapUpdate, Rest, state};
use onego_ceph::rbd::{DataNames, Features};
use onego_ceph::types::{NOSNAP, SnapContext};

pub(in crate::rbd) struct CopyDown<'a> {
    header: &'a Header,
    details: &'a ImageDetails,
    data: Pool,
    names: DataNames,
    parent: View,
    head_overlap: u64,
    /// Parent bytes that the image or any of its snapshots shows.
    overlap: u64,
}

impl<'a> CopyDown<'a> {
    pub(in crate::rbd) async fn new(header: &'a Header, details: &'a ImageDetails) -> Result<Self, Error> {
        let head_overlap = details.info.parent.as_ref().map_or(0, |parent| parent.overlap);
        let of_snapshots = details.snapshots.iter().filter_map(|snapshot| snapshot.overlap);
        Ok(Self {
            header,
            details,
            data: header.data_pool(&details.info).await?,
            names: details.info.data_names(),
            parent: View::of_parent(header, details).await?,
            head_overlap,
            overlap: of_snapshots.fold(head_overlap, u64::max),
        })
    }

    /// Returns the number of objects, from the first on, that may show the parent at present or at a snapshot.
    pub(in crate::rbd) fn objects(&self) -> u64 {
        self.details.info.layout.objects(self.overlap)
    }

    /// Copies the objects of which the image, if it showed `shown` parent bytes, would show less than a snapshot. A
    /// later change would create them without the parent data that the snapshots must keep.
    pub(in crate::rbd) async fn cut_objects(&self, shown: u64) -> Result<(), Error> {
        let layout = &self.details.info.layout;
        let showing = self.details.snapshots.iter().filter(|snapshot| snapshot.overlap.is_some());
        let showing: Vec<u64> = showing.map(|snapshot| snapshot.id).collect();
        let advice = "its snapshots would lose what they show of the parent: remove them first";
        refuse_own_key(self.header, &showing, advice).await?;
        for object in 0..self.objects() {
            if layout.object_end(object, shown) < layout.object_end(object, self.overlap) {
                self.object(object).await?;
            }
        }
        Ok(())
    }

    /// Copies the parent data that the image and its snapshots show into an object, unless the object exists.
    pub(in crate::rbd) async fn object(&self, object: u64) -> Result<(), Error> {
        let name = self.names.name(object).to_string();
        if exists(&self.data, &name).await? {
            return Ok(());
        }
        // The object may have existed before a shrink. Then the oldest snapshot does not show the parent there.
        let mut times = self.times(object).filter(|(snap, shown)| *snap != NOSNAP && *shown > 0);
        if let Some((oldest, _)) = times.next()
            && exists(&self.data.at_snapshot(oldest), &name).await?
        {
            return Ok(());
        }
        let layout = &self.details.info.layout;
        let length = layout.object_end(object, self.overlap);
        let bytes = self.parent.read_ranges(&layout.ranges(object, 0, length)).await?;
        // Zeros need no object: without a parent it reads as zeros as well.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.mark(object, length).await?;
        // With an empty snapshot context, all snapshots see the copy.
        self.data.operate_write(&name, WriteOp::new().call(&CopyUp { data: Rest(bytes) })).await?;
        self.hide_what_newer_do_not_show(object, &name, length).await
    }

    /// Returns the image's snapshots, oldest first, and the image itself, each as its number and the parent bytes
    /// that it shows in an object.
    fn times(&self, object: u64) -> impl Iterator<Item = (u64, u64)> {
        let layout = self.details.info.layout;
        let snapshots =
            self.details.snapshots.iter().map(|snapshot| (snapshot.id, snapshot.overlap.unwrap_or(0)));
        let times = snapshots.chain([(NOSNAP, self.head_overlap)]);
        times.map(move |(snap, overlap)| (snap, layout.object_end(object, overlap)))
    }

    /// Hides parent data from newer snapshots: an image that was shrunk and grown again shows less of the parent than
    /// older snapshots.
    async fn hide_what_newer_do_not_show(&self, object: u64, name: &str, length: u64) -> Result<(), Error> {
        let (mut shown, mut older) = (length, SnapContext::default());
        for (snap, end) in self.times(object) {
            if end < shown {
                let data = self.data.with_snap_context(&older);
                match end {
                    // Past the end of the image there must be no data.
                    0 => data.remove(name).await?,
                    _ => data.zero(name, end, shown - end).await?,
                }
                shown = end;
            }
            older.seq = snap;
            older.snaps.insert(0, snap);
        }
        Ok(())
    }

    /// Records that an object will exist in the image and all its snapshots, and whether it differs from the previous
    /// snapshot.
    async fn mark(&self, object: u64, length: u64) -> Result<(), Error> {
        let features = self.details.info.features;
        if !features.contains(Features::OBJECT_MAP) {
            return Ok(());
        }
        let mut before = None;
        for (snap, end) in self.times(object) {
            let shown = end.min(before.unwrap_or(length));
            if shown == 0 {
                continue;
            }
            let is_same = before == Some(shown) && features.contains(Features::FAST_DIFF);
            before = Some(shown);
            let state = if is_same { state::EXISTS_CLEAN } else { state::EXISTS };
            let update = ObjectMapUpdate { start: object, end: object + 1, state, current: None };
            if change_map(self.header, snap, WriteOp::new().call(&update)).await.is_err() {
                invalidate(self.header, snap).await?;
            }
        }
        Ok(())
    }
}

async fn exists(data: &Pool, name: &str) -> Result<bool, Error> {
    match data.stat(name).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
