use super::source_view::SourceView;
use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{Header, ImageInfo};
use crate::rbd::maps::change_map;
use crate::rbd::sources::source_of;
use onego_ceph::cls::rbd::{AssertSnapcSeq, MigrationSpec, ObjectMapUpdate, snapc_seq, state};
use onego_ceph::rbd::{DataNames, Features, Layout};
use onego_ceph::types::{NOSNAP, SnapContext};
use onego_rbd::Copied;

/// Copies objects of an image that is being migrated, with their states at all snapshots.
///
/// A copy may be repeated, and be made by several clients: each of its steps takes effect once. Later writes to the
/// object are kept.
///
/// Source: ceph `src/librbd/deep_copy/ObjectCopyRequest.cc`.
pub(in crate::rbd) struct ObjectCopier {
    header: Header,
    layout: Layout,
    features: Features,
    data: Pool,
    names: DataNames,
    /// Whether the destination has a parent, which absent objects would show.
    has_parent: bool,
    /// States of the source at its snapshots, oldest first, and at present.
    steps: Vec<CopyStep>,
}

struct CopyStep {
    source: SourceView,
    /// The destination's snapshot of this state; [`NOSNAP`] means the image itself.
    snap: u64,
}

impl ObjectCopier {
    pub(in crate::rbd) async fn new(
        pool: &Pool,
        info: &ImageInfo,
        spec: &MigrationSpec,
    ) -> Result<Self, Error> {
        let header = Header::of(pool, info);
        let source = source_of(pool, &info.name, spec).await?;
        let mut steps = Vec::new();
        for (from, to) in spec.snap_seqs.iter().filter(|(from, _)| **from != NOSNAP) {
            if info.snapshots.contains(to) {
                steps.push(CopyStep { source: SourceView::of(&source, Some(*from)).await?, snap: *to });
            }
        }
        steps.push(CopyStep { source: SourceView::of(&source, None).await?, snap: NOSNAP });
        Ok(Self {
            layout: info.layout,
            features: info.features,
            data: header.data_pool(info).await?,
            names: info.data_names(),
            has_parent: !spec.flatten && info.state.parent.pool >= 0,
            header,
            steps,
        })
    }

    /// Copies an object. `is_whole` includes the data of the source's ancestors, because the object is about to hide
    /// it. `snaps` are the image's snapshots.
    pub(in crate::rbd) async fn copy(
        &self,
        object: u64,
        is_whole: bool,
        snaps: &[u64],
    ) -> Result<Copied, Error> {
        let mut before: Option<Vec<u8>> = None;
        let mut context = SnapContext::default();
        let mut is_clean = false;
        for step in &self.steps {
            let now = self.source_object(&step.source, object, is_whole).await?;
            let is_same = now == before;
            if now.is_some() {
                self.mark(object, step.snap, is_same).await?;
                if step.snap == NOSNAP {
                    self.mark_later(object, snaps, is_same).await?;
                }
            }
            if !is_same {
                self.write(object, &context, now.as_deref()).await?;
            }
            is_clean = is_same;
            before = now;
            context.seq = step.snap;
            context.snaps.insert(0, step.snap);
        }
        // A snapshot created since the start of the migration has the copied data.
        let has_later = snaps.iter().any(|snap| self.is_later(*snap));
        Ok(Copied { is_clean: is_clean || has_later })
    }

    /// Reads the data of a destination object from one state of the source, without trailing zeros; `None` if it does
    /// not exist.
    async fn source_object(
        &self,
        source: &SourceView,
        object: u64,
        is_whole: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let length = self.layout.object_end(object, source.size());
        let ranges = self.layout.ranges(object, 0, length);
        let hides_parent = self.has_parent && !is_whole;
        if length == 0 || hides_parent && !source.has_objects(&ranges).await? {
            return Ok(None);
        }
        let mut bytes = source.read_ranges(&ranges).await?;
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end);
        Ok(Some(bytes).filter(|bytes| self.has_parent || !bytes.is_empty()))
    }

    /// Writes the state of an object between two snapshots, unless that is already done.
    async fn write(&self, object: u64, context: &SnapContext, bytes: Option<&[u8]>) -> Result<(), Error> {
        let op = if context.snaps.is_empty() {
            WriteOp::new().create(true)
        } else {
            WriteOp::new().call(&AssertSnapcSeq { seq: context.seq, state: snapc_seq::NEWER })
        };
        let op = match bytes {
            Some(bytes) => op.write_full(bytes.to_vec()),
            None => op.remove(),
        };
        let data = self.data.with_snap_context(context);
        match data.operate_write(&self.names.name(object).to_string(), op).await {
            Ok(_) => Ok(()),
            // An earlier attempt did this.
            Err(Error::Exists { .. } | Error::Refused { errno: Errno::RANGE, .. }) => Ok(()),
            Err(Error::NotFound { .. }) if bytes.is_none() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Records in the map of a snapshot that an object exists. The owner maintains the map of the image itself.
    async fn mark(&self, object: u64, snap: u64, is_same: bool) -> Result<(), Error> {
        if snap == NOSNAP || !self.features.contains(Features::OBJECT_MAP) {
            return Ok(());
        }
        let is_clean = is_same && self.features.contains(Features::FAST_DIFF);
        let state = if is_clean { state::EXISTS_CLEAN } else { state::EXISTS };
        let update = ObjectMapUpdate { start: object, end: object + 1, state, current: None };
        match change_map(&self.header, snap, WriteOp::new().call(&update)).await {
            // The snapshot was removed, or ends before the object.
            Ok(()) | Err(Error::NotFound { .. } | Error::Refused { errno: Errno::RANGE, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn is_later(&self, snap: u64) -> bool {
        self.steps.iter().all(|step| step.snap != snap)
    }

    /// Records the object in the maps of snapshots created since the start of the migration, which show it as well.
    async fn mark_later(&self, object: u64, snaps: &[u64], is_same: bool) -> Result<(), Error> {
        let later = snaps.iter().filter(|snap| self.is_later(**snap));
        for (place, snap) in later.rev().enumerate() {
            self.mark(object, *snap, is_same || place > 0).await?;
        }
        Ok(())
    }
}
