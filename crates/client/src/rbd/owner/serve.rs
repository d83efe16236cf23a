//! Operations that the lock owner of an image executes for other clients: through the machine of the open image,
//! which tracks them, or while it is paused.
//!
//! Source: ceph `src/librbd/ImageWatcher.cc`, `src/librbd/Operations.cc`.

use crate::ceph::error::{Errno, Error};
use crate::ceph::operator::{JobFuture, OpenedImage, OperationProgress, Operator};
use crate::rados::{Pool, WeakPool};
use crate::rbd::clones::{check_key, copy_down, end_clone};
use crate::rbd::header::{Header, ImageDetails, ImageInfo, metadata};
use crate::rbd::image::Image;
use crate::rbd::migration::{ObjectCopier, migrating_objects};
use crate::rbd::objects::for_each_object;
use crate::rbd::pools::rename;
use crate::rbd::release::remove_snapshot;
use crate::rbd::snapshot::Snapshot;
use crate::rbd::snapshots::{Quiesce, create_in, protect_in, quiesced, rename_in, unprotect_in};
use crate::rbd::upkeep::{rebuild_all, sparsify_in, update_features};
use onego_ceph::rbd::Features;
use onego_rbd::notify::{Operation, SnapshotName};
use onego_rbd::{Copied, PauseKind};
use std::sync::Arc;

/// Executes operations that other clients request for an open image, and copies objects of one that is being migrated
/// here.
pub(in crate::rbd) struct ImageOperator {
    /// Weak, so that only the image's users keep the client alive between operations.
    pool: WeakPool,
    info: ImageInfo,
    copier: Option<Arc<ObjectCopier>>,
}

impl ImageOperator {
    pub(in crate::rbd) fn new(pool: &Pool, info: &ImageInfo, copier: Option<ObjectCopier>) -> Self {
        Self { pool: pool.downgrade(), info: info.clone(), copier: copier.map(Arc::new) }
    }
}

impl Operator for ImageOperator {
    fn operate(
        &self,
        image: OpenedImage,
        number: u32,
        operation: Operation,
        progress: OperationProgress,
    ) -> JobFuture<()> {
        let (pool, info) = (self.pool.clone(), self.info.clone());
        Box::pin(async move {
            let pool = pool.upgrade().ok_or(Error::Closed)?;
            let image = OwnedImage { image: Image::attached(pool, info, image), number };
            image.serve(operation, |done, all| progress.set(done, all)).await
        })
    }

    fn copy_object(&self, object: u64, is_whole: bool, snaps: &[u64]) -> JobFuture<Copied> {
        let (copier, snaps) = (self.copier.clone(), snaps.to_vec());
        Box::pin(async move {
            match copier {
                Some(copier) => copier.copy(object, is_whole, &snaps).await,
                None => Err(Error::Invalid("the image is not being migrated".into())),
            }
        })
    }
}

struct OwnedImage {
    image: Image,
    number: u32,
}

impl OwnedImage {
    async fn serve(
        &self,
        operation: Operation,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(), Error> {
        // The image may have been renamed. It has a lock, and therefore an id.
        let header = &Header::with_id(self.image.pool(), &self.image.info().id).await?;
        header.check_migrating(&header.details().await?.info, &operation)?;
        // An operation waiting for space would block others from the image, including those that free space.
        let prompt = &header.with_full_try();
        match operation {
            Operation::Migrate { .. } => {
                let objects = migrating_objects(header).await?;
                for_each_object(objects, progress, |object| self.image.copy_up(object)).await
            }
            Operation::Resize { size, allow_shrink, .. } => {
                resize(&self.image, size, allow_shrink, progress).await
            }
            Operation::Flatten { .. } => self.flatten(header, progress).await,
            Operation::Sparsify { sparse_size, .. } => {
                sparsify_in(header, &header.details().await?.info, sparse_size, progress).await
            }
            Operation::SnapCreate { flags, .. } => {
                // The users' last writes happen before the pause.
                let make = self.paused(PauseKind::Exclusive, short(prompt, operation, &mut progress));
                quiesced(&[header], Quiesce::of_flags(flags), make).await
            }
            other => {
                let kind = pause_kind(&other);
                self.paused(kind, short(prompt, other, &mut progress)).await
            }
        }
    }

    async fn paused(
        &self,
        kind: PauseKind,
        body: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        self.image.pause(self.number, kind).await?;
        let result = body.await;
        self.image.resume().await?;
        result
    }

    async fn flatten(&self, header: &Header, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
        let overlap = header.details().await?.info.parent.map_or(0, |parent| parent.overlap);
        if overlap == 0 {
            return Err(Error::Invalid(format!("{} has no parent", header.describe())));
        }
        check_key(header).await?;
        let objects = self.image.info().layout.objects(overlap);
        for_each_object(objects, progress, |object| self.image.copy_up(object)).await?;
        self.paused(PauseKind::Exclusive, async {
            let details = header.details().await?;
            // A snapshot from before a shrink shows more of the parent than the image.
            let shows_more = |snapshot: &Snapshot| snapshot.overlap.is_some_and(|bytes| bytes > overlap);
            if details.snapshots.iter().any(shows_more) {
                copy_down(header, &details, |_, _| {}).await?;
            }
            end_clone(header, &details).await
        })
        .await
    }
}

/// Returns the pause that an operation needs. A write in flight may refer to a removed snapshot, which OSDs ignore,
/// but must not miss a new one.
fn pause_kind(operation: &Operation) -> PauseKind {
    match operation {
        Operation::SnapRemove { .. }
        | Operation::SnapRename { .. }
        | Operation::SnapProtect { .. }
        | Operation::SnapUnprotect { .. }
        | Operation::Rename { .. }
        | Operation::MetadataUpdate { .. } => PauseKind::Header,
        _ => PauseKind::Exclusive,
    }
}

/// Executes operations that change the header and object maps, but no data.
async fn short(
    header: &Header,
    operation: Operation,
    progress: &mut (impl FnMut(u64, u64) + Send),
) -> Result<(), Error> {
    let details = &header.details().await?;
    match operation {
        Operation::SnapCreate { snapshot: SnapshotName { name, namespace }, .. } => {
            create_in(header, details, &name, namespace).await.map(drop)
        }
        Operation::SnapRemove { snapshot, .. } => {
            remove_snapshot(header, details, find(header, details, &snapshot)?.id).await
        }
        Operation::SnapRename { snap, snapshot, .. } => rename_in(header, snap, &snapshot.name).await,
        Operation::SnapProtect { snapshot, .. } => {
            protect_in(header, details, find(header, details, &snapshot)?).await
        }
        Operation::SnapUnprotect { snapshot, .. } => {
            unprotect_in(header, find(header, details, &snapshot)?).await
        }
        Operation::RebuildObjectMap { .. } => rebuild_all(header, details, progress).await,
        Operation::Rename { name, .. } => rename(&header.pool, &header.name, &name).await,
        Operation::UpdateFeatures { features, enabled, .. } => {
            update_features(header, details, Features(features), enabled).await
        }
        Operation::MetadataUpdate { key, value: Some(value), .. } => {
            metadata::set_metadata(&header.pool, &details.info, &key, value.as_bytes()).await
        }
        Operation::MetadataUpdate { key, value: None, .. } => {
            metadata::remove_metadata(&header.pool, &details.info, &key).await
        }
        other => Err(Error::Refused {
            what: format!("{other:?} of {} for another client", header.describe()),
            errno: Errno::OPNOTSUPP,
        }),
    }
}

fn find<'a>(header: &Header, details: &'a ImageDetails, name: &SnapshotName) -> Result<&'a Snapshot, Error> {
    let is_it = |snapshot: &&Snapshot| snapshot.name == name.name && snapshot.kind == name.namespace;
    let found = details.snapshots.iter().find(is_it);
    found.ok_or_else(|| Error::NotFound { what: format!("snapshot {}@{}", header.name, name.name) })
}

async fn resize(
    image: &Image,
    size: u64,
    allow_shrink: bool,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    if size < image.size() && !allow_shrink {
        return Err(Error::Invalid("the image would shrink".into()));
    }
    image.resize_held(size, progress).await
}
