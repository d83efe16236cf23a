use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::admin::remove;
use crate::rbd::create::{CreateOptions, create};
use crate::rbd::header::{Header, metadata};
use crate::rbd::release::CHILDREN;
use crate::rbd::snapshot::Snapshot;
use onego_ceph::cls::rbd::{
    AddChild, ChildAttach, ChildImageSpec, MetadataSet, OpFeaturesSet, ParentAttach, ParentImageSpec,
    op_feature,
};
use onego_ceph::rbd::Features;

/// First release whose clients support clones counted by the snapshot itself (`CEPH_RELEASE_MIMIC`).
const COUNTING_RELEASE: u8 = 13;

/// Format in which a parent records a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloneFormat {
    /// In a list in each pool. The snapshot must be protected.
    Listed,
    /// In the parent's snapshot, which can be removed (hidden) while it has clones. Clients before Mimic cannot open
    /// such images.
    Counted,
}

impl CloneFormat {
    /// Returns the newest format that the cluster's clients support (`ceph osd set-require-min-compat-client`).
    async fn of_cluster(pool: &Pool) -> Result<Self, Error> {
        let oldest = pool.cluster().map(1).await?.require_min_compat_client;
        Ok(if oldest >= COUNTING_RELEASE { Self::Counted } else { Self::Listed })
    }
}

/// Creates an image that shows the data of a snapshot, and has its size. `format: None` selects the newest one that
/// the cluster's clients support.
///
/// Source: ceph `src/librbd/image/CloneRequest.cc`.
pub async fn clone(
    (pool, image, snapshot): (&Pool, &str, &str),
    (child_pool, child): (&Pool, &str),
    options: &CreateOptions,
    format: Option<CloneFormat>,
) -> Result<(), Error> {
    let parent = Header::named(pool, image).await?;
    parent.needs_v2("the id that clones require", Errno::NOENT)?;
    let details = parent.details().await?;
    clone_of(&parent, details.snapshot(snapshot)?, (child_pool, child), options, format).await
}

/// Like [`clone()`], for a snapshot of any kind by its number.
pub async fn clone_by_id(
    (pool, image, snapshot): (&Pool, &str, u64),
    (child_pool, child): (&Pool, &str),
    options: &CreateOptions,
    format: Option<CloneFormat>,
) -> Result<(), Error> {
    let parent = Header::named(pool, image).await?;
    parent.needs_v2("the id that clones require", Errno::NOENT)?;
    let details = parent.details().await?;
    clone_of(&parent, details.snapshot_by_id(snapshot)?, (child_pool, child), options, format).await
}

async fn clone_of(
    parent: &Header,
    snapshot: &Snapshot,
    (child_pool, child): (&Pool, &str),
    options: &CreateOptions,
    format: Option<CloneFormat>,
) -> Result<(), Error> {
    options.needs_v2("clones")?;
    let pool = &parent.pool;
    let format = match format {
        Some(format) => format,
        None => CloneFormat::of_cluster(pool).await?,
    };
    if format == CloneFormat::Listed && !snapshot.is_protected() {
        return Err(Error::Invalid(format!(
            "snapshot {}@{} is not protected, as clones require: run \"rbd snap protect\" first",
            parent.name, snapshot.name
        )));
    }
    if format == CloneFormat::Listed && pool.namespace() != child_pool.namespace() {
        return Err(Error::Unmet {
            what: "clones in another namespace than their parent require the second format".into(),
            errno: Errno::XDEV,
        });
    }
    let features = options.features.with(Features::LAYERING);
    let options = CreateOptions { size: snapshot.size, features, ..options.clone() };
    create(child_pool, child, &options).await?;
    let spec = ParentImageSpec {
        pool: parent.pool.id(),
        namespace: parent.pool.namespace().to_owned(),
        image_id: parent.id.clone(),
        snap: snapshot.id,
    };
    let attached = async {
        let child = Header::named(child_pool, child).await?;
        attach(parent, spec, snapshot.size, &child, format).await?;
        copy_metadata(parent, &child).await
    };
    if let Err(error) = attached.await {
        // An image without its parent would block the name. The first error is the one to report.
        let _ = remove(child_pool, child, |_, _| {}).await;
        return Err(error);
    }
    Ok(())
}

/// Makes an image a clone of a snapshot, of which it shows `overlap` bytes.
pub(in crate::rbd) async fn attach(
    parent: &Header,
    spec: ParentImageSpec,
    overlap: u64,
    child: &Header,
    format: CloneFormat,
) -> Result<(), Error> {
    let snap = spec.snap;
    child.change(&ParentAttach { parent: spec.clone(), overlap, reattach: false }).await?;
    match format {
        CloneFormat::Counted => {
            let bit = op_feature::CLONE_CHILD;
            child.change(&OpFeaturesSet { features: bit, mask: bit }).await?;
            let child = ChildImageSpec {
                pool: child.pool.id(),
                image_id: child.id.clone(),
                namespace: child.pool.namespace().to_owned(),
            };
            parent.change(&ChildAttach { snap, child }).await?;
            parent.notify_changed().await
        }
        CloneFormat::Listed => {
            let add = AddChild { pool: spec.pool, image_id: spec.image_id, snap, child: child.id.clone() };
            let op = WriteOp::new().call(&add);
            child.pool.operate_write(CHILDREN, op).await?;
            // The snapshot may have been unprotected before the list contained the clone.
            let details = parent.details().await?;
            match details.snapshots.iter().find(|snapshot| snapshot.id == snap) {
                Some(snapshot) if snapshot.is_protected() => Ok(()),
                _ => Err(Error::Busy {
                    what: parent.describe(),
                    reason: "its snapshot is being removed".into(),
                }),
            }
        }
    }
}

pub(in crate::rbd) async fn copy_metadata(from: &Header, to: &Header) -> Result<(), Error> {
    let entries = metadata::all(&from.pool, &from.object()).await?;
    if entries.is_empty() {
        return Ok(());
    }
    to.change(&MetadataSet { entries }).await
}
