use super::copy::{CopyTarget, ONLY_WITH_PARENT};
use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::admin::remove;
use crate::rbd::clones::{CloneFormat, attach, copy_metadata};
use crate::rbd::create::{CreateOptions, create};
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::objects::for_each_object;
use crate::rbd::resize::resize;
use crate::rbd::snapshot::{Snapshot, SnapshotKind};
use crate::rbd::snapshots::create_in;
use crate::rbd::view::{View, refuse_own_key};
use onego_buf::List;
use onego_ceph::types::NOSNAP;

/// Treatment of clones by [`deep_copy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyKind {
    /// The copy of a clone is a clone of the same snapshot, recorded in the same format.
    #[default]
    AsSource,
    /// The copy of a clone is a clone of the same snapshot, recorded in this format.
    Clone(CloneFormat),
    /// The copy of a clone is independent.
    Flat,
}

impl CopyKind {
    pub(in crate::rbd) fn format(self, source: &ImageDetails) -> CloneFormat {
        match self {
            Self::Clone(format) => format,
            _ if source.is_counted_clone() => CloneFormat::Counted,
            _ => CloneFormat::Listed,
        }
    }
}

/// Copies an image with its user snapshots, up to a named one, to a new image of the same layout. The copy of a clone
/// is a clone of the same snapshot, unless `kind` says otherwise. Calls `progress` with (done, total) in objects.
pub async fn deep_copy(
    (pool, image, snapshot): (&Pool, &str, Option<&str>),
    (to_pool, to): (&Pool, &str),
    options: &CreateOptions,
    kind: CopyKind,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    options.needs_v2("copies with snapshots")?;
    let header = Header::named(pool, image).await?;
    let details = header.details().await?;
    let end = match snapshot {
        Some(name) => details.snapshot(name)?.id,
        None => NOSNAP,
    };
    let is_whole = kind == CopyKind::Flat || details.origin.is_none();
    let source = CopySource { header: &header, details: &details, kind, is_whole };
    let steps: Vec<Option<&Snapshot>> = source.steps(end);
    if kind == CopyKind::Flat && details.origin.is_some() {
        let times = steps.iter().map(|step| step.map_or(NOSNAP, |snapshot| snapshot.id));
        refuse_own_key(&header, &times.collect::<Vec<_>>(), ONLY_WITH_PARENT).await?;
    }
    let first = steps[0].map_or(details.info.size, |snapshot| snapshot.size);
    let options = CreateOptions { size: first, layout: details.info.layout, ..options.clone() };
    create(to_pool, to, &options).await?;
    let copied = async {
        let target = Header::named(to_pool, to).await?;
        copy_metadata(&header, &target).await?;
        if !source.is_whole {
            source.attach(&target, steps[0]).await?;
        }
        let all = steps.len() as u64;
        let mut before = None;
        for (step, at) in steps.into_iter().enumerate() {
            let part = |done: u64, of: u64| progress(step as u64 * of.max(1) + done, all * of.max(1));
            before = Some(source.step(&target, before, at, part).await?);
        }
        Ok(())
    };
    let copied = copied.await;
    if copied.is_err() {
        // A partial copy would block the name. The first error is the one to report.
        let _ = crate::rbd::snapshots::purge(to_pool, to, |_, _| {}).await;
        let _ = remove(to_pool, to, |_, _| {}).await;
    }
    copied
}

struct CopySource<'a> {
    header: &'a Header,
    details: &'a ImageDetails,
    kind: CopyKind,
    /// Whether to copy objects together with their ancestors' data.
    is_whole: bool,
}

impl CopySource<'_> {
    /// Returns the snapshots to copy, oldest first, followed by the image itself unless the copy ends at a snapshot.
    fn steps(&self, end: u64) -> Vec<Option<&Snapshot>> {
        let users = self.details.snapshots.iter().filter(|snapshot| snapshot.is_users());
        let up_to = users.filter(|snapshot| snapshot.id <= end).map(Some);
        up_to.chain((end == NOSNAP).then_some(None)).collect()
    }

    async fn attach(&self, target: &Header, first: Option<&Snapshot>) -> Result<(), Error> {
        let Some(origin) = &self.details.origin else { return Ok(()) };
        let head = self.details.info.parent.as_ref().map(|parent| parent.overlap);
        let overlap = first.map_or(head, |snapshot| snapshot.overlap).unwrap_or(0);
        if overlap == 0 {
            return Ok(());
        }
        let pool = self.header.pool.cluster().pool_by_id(origin.pool).await?.in_namespace(&origin.namespace);
        let parent = Header::with_id(&pool, &origin.image_id).await?;
        let format = self.kind.format(self.details);
        attach(&parent, origin.clone(), overlap, target, format).await
    }

    /// Updates the copy to the state of the image at a snapshot or at present, and creates the copy's snapshot.
    async fn step(
        &self,
        target: &Header,
        before: Option<View>,
        at: Option<&Snapshot>,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<View, Error> {
        let snap = at.map_or(NOSNAP, |snapshot| snapshot.id);
        let view = View::of(self.header, snap).await?;
        let known = target.details().await?;
        if known.info.size != view.size() {
            resize(&target.pool, &target.name, view.size(), |_, _| {}).await?;
        }
        let to = CopyTarget::open(&target.pool, &target.name).await?;
        for_each_object(to.layout.objects(view.size()), progress, |object| {
            let (view, before, to) = (&view, before.as_ref(), &to);
            async move {
                let now = self.object(view, object).await?;
                let then = match before {
                    Some(before) => self.object(before, object).await?,
                    None => None,
                };
                match now {
                    _ if now == then => Ok(()),
                    Some(bytes) => to.write(object, bytes).await,
                    None => to.remove(object).await,
                }
            }
        })
        .await?;
        if let Some(snapshot) = at {
            let details = target.details().await?;
            create_in(target, &details, &snapshot.name, SnapshotKind::User).await?;
        }
        Ok(view)
    }

    /// Reads an object; `None` if the copy needs no object.
    async fn object(&self, view: &View, object: u64) -> Result<Option<Vec<u8>>, Error> {
        if !self.is_whole {
            return Ok(view.own_object(object).await?.map(|bytes: List| bytes.to_vec()));
        }
        let layout = &self.details.info.layout;
        let bytes =
            view.read_ranges(&layout.ranges(object, 0, layout.object_end(object, view.size()))).await?;
        Ok(Some(bytes).filter(|bytes| bytes.iter().any(|byte| *byte != 0)))
    }
}
