//! All that an image's header says, as operations on the image need it.

use super::header::{ImageInfo, describe, image_id, info_by_id, place};
use super::snapshot::Snapshot;
use crate::ceph::error::Error;
use crate::rados::{Cluster, Pool, ReadOp, WriteOp};
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{
    DirGetName, GetAccessTimestamp, GetFlags, GetModifyTimestamp, GetProtectionStatus, GetSnapshotName,
    GroupSpec, ImageGroupGet, OpFeaturesGet, ParentGet, ParentImageSpec, ParentOverlapGet, SnapshotGet,
    TrashGet, op_feature,
};
use onego_ceph::rbd::{DIRECTORY, HEADER_UPDATE, header_object};
use onego_ceph::types::{NOSNAP, Utime};
use std::time::{Duration, SystemTime};

/// How long others that have the image open may take to notice that it has changed.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// The object that lists a pool's images in the trash (`RBD_TRASH`).
pub(super) const TRASH: &str = "rbd_trash";

/// The object that lists a pool's groups (`RBD_GROUP_DIRECTORY`).
pub(super) const GROUP_DIRECTORY: &str = "rbd_group_directory";

/// An image that an operation is about.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) pool: Pool,
    pub(crate) id: String,
    /// As people know it; its id if it has no name.
    pub(crate) name: String,
}

/// All that is known of an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageDetails {
    /// What every user of the image needs.
    pub info: ImageInfo,
    /// See `onego_ceph::cls::rbd::image_flag`.
    pub flags: u64,
    /// See `onego_ceph::cls::rbd::op_feature`.
    pub op_features: u64,
    /// Number of the pool and id of the group that it is in, if it is.
    pub group: Option<(i64, String)>,
    /// When it was last read, as far as anybody said so.
    pub accessed: Option<SystemTime>,
    /// When it was last written, as far as anybody said so.
    pub modified: Option<SystemTime>,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The snapshot that it, or a snapshot of it, was cloned from.
    pub(crate) origin: Option<ParentImageSpec>,
}

impl ImageDetails {
    /// What is known of the image called `name`.
    pub async fn of(pool: &Pool, name: &str) -> Result<Self, Error> {
        Header::named(pool, name).await?.details().await
    }

    /// What is known of the image with this id. It may be in the trash.
    pub async fn of_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        let name = image_name(pool, id).await?;
        Header { pool: pool.clone(), id: id.to_owned(), name }.details().await
    }

    /// Is it a clone that the parent's snapshot counts itself?
    pub(crate) fn is_counted_clone(&self) -> bool {
        self.op_features & op_feature::CLONE_CHILD != 0
    }

    /// A user's snapshot by its name.
    pub fn snapshot(&self, name: &str) -> Result<&Snapshot, Error> {
        let named = self.snapshots.iter().find(|snapshot| snapshot.is_users() && snapshot.name == name);
        named.ok_or_else(|| Error::NotFound { what: format!("snapshot {}@{name}", self.info.name) })
    }

    /// A snapshot of any kind by its number.
    pub fn snapshot_by_id(&self, id: u64) -> Result<&Snapshot, Error> {
        let found = self.snapshots.iter().find(|snapshot| snapshot.id == id);
        found.ok_or_else(|| Error::NotFound { what: format!("snapshot {id} of {}", self.info.name) })
    }

    /// The snapshot that it is a clone of, by its names.
    pub async fn parent_name(&self, cluster: &Cluster) -> Result<Option<ParentName>, Error> {
        let Some(parent) = &self.info.parent else { return Ok(None) };
        let pool = cluster.pool_by_id(parent.pool).await?.in_namespace(&parent.namespace);
        let (image, in_trash) = match pool.call(DIRECTORY, &DirGetName { id: parent.image.clone() }).await {
            Ok(name) => (name, false),
            Err(Error::NotFound { .. }) => {
                (pool.call(TRASH, &TrashGet { id: parent.image.clone() }).await?.name, true)
            }
            Err(error) => return Err(error),
        };
        let header = header_object(&parent.image).to_string();
        let snapshot = pool.call(&header, &GetSnapshotName { snap: parent.snapshot }).await?;
        Ok(Some(ParentName { place: place(&pool), image, id: parent.image.clone(), snapshot, in_trash }))
    }

    /// The name of the group that it is in: pool/group.
    pub async fn group_name(&self, pool: &Pool) -> Result<Option<String>, Error> {
        let Some((id, group)) = &self.group else { return Ok(None) };
        let pool = pool.cluster().pool_by_id(*id).await?.in_namespace(pool.namespace());
        let name = pool.call(GROUP_DIRECTORY, &DirGetName { id: group.clone() }).await?;
        Ok(Some(format!("{}/{name}", place(&pool))))
    }
}

/// The snapshot that a clone was made of, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParentName {
    /// Its pool, and its namespace if it is in one: POOL or POOL/NAMESPACE.
    pub place: String,
    /// Its image.
    pub image: String,
    /// The image's id.
    pub id: String,
    /// Its own name.
    pub snapshot: String,
    /// Is the image in the trash?
    pub in_trash: bool,
}

/// The name of the image with this id, or the one that it had before it came into the trash.
pub async fn image_name(pool: &Pool, id: &str) -> Result<String, Error> {
    match pool.call(DIRECTORY, &DirGetName { id: id.to_owned() }).await {
        Err(Error::NotFound { .. }) => {}
        other => return other,
    }
    match pool.call(TRASH, &TrashGet { id: id.to_owned() }).await {
        Ok(spec) => Ok(spec.name),
        Err(Error::NotFound { .. }) => Err(Error::NotFound { what: format!("image {id}") }),
        Err(error) => Err(error),
    }
}

/// A time of the cluster.
pub(crate) fn time(at: Utime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(at.sec.into(), at.nsec)
}

impl Header {
    /// The image that this is known of.
    pub(crate) fn of(pool: &Pool, info: &ImageInfo) -> Self {
        Self { pool: pool.clone(), id: info.id.clone(), name: info.name.clone() }
    }

    /// The image called `name`.
    pub(crate) async fn named(pool: &Pool, name: &str) -> Result<Self, Error> {
        let id = image_id(pool, name).await?;
        Ok(Self { pool: pool.clone(), id, name: name.to_owned() })
    }

    /// The image with this id, which may be in the trash.
    pub(crate) async fn with_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        let name = match pool.call(DIRECTORY, &DirGetName { id: id.to_owned() }).await {
            Ok(name) => name,
            Err(Error::NotFound { .. }) => id.to_owned(),
            Err(error) => return Err(error),
        };
        Ok(Self { pool: pool.clone(), id: id.to_owned(), name })
    }

    /// The name of the object.
    pub(crate) fn object(&self) -> String {
        header_object(&self.id).to_string()
    }

    /// The image in messages.
    pub(crate) fn describe(&self) -> String {
        describe(&self.pool, &self.name)
    }

    /// A snapshot of the image in messages.
    pub(crate) fn describe_snapshot(&self, snapshot: &Snapshot) -> String {
        format!("snapshot {}@{}", self.name, snapshot.name)
    }

    /// Calls a method that only reads.
    pub(crate) async fn call<M: Method>(&self, method: &M) -> Result<M::Reply, Error> {
        self.pool.call(&self.object(), method).await
    }

    /// Calls a method that changes the header.
    pub(crate) async fn change<M: Method>(&self, method: &M) -> Result<(), Error> {
        self.pool.operate_write(&self.object(), WriteOp::new().call(method)).await.map(drop)
    }

    /// Has those that have the image open read its header again.
    pub(crate) async fn notify_changed(&self) -> Result<(), Error> {
        self.pool.notify(&self.object(), HEADER_UPDATE.to_vec(), NOTIFY_TIMEOUT).await.map(drop)
    }

    /// What is known of the image.
    pub(crate) async fn details(&self) -> Result<ImageDetails, Error> {
        let info = info_by_id(&self.pool, &self.name, &self.id, NOSNAP).await?;
        let mut op = ReadOp::new();
        let flags = op.call(&GetFlags { snap: NOSNAP });
        let op_features = op.call(&OpFeaturesGet {});
        let origin = op.call(&ParentGet {});
        let group = op.call(&ImageGroupGet {});
        let accessed = op.call(&GetAccessTimestamp {});
        let modified = op.call(&GetModifyTimestamp {});
        let reply = self.pool.operate_read(&self.object(), op).await?;
        let GroupSpec { pool, group_id } = reply.get(&group)?;
        let known = |at: Utime| (at != Utime::default()).then(|| time(at));
        let mut snapshots = Vec::with_capacity(info.snapshots.len());
        for snap in info.snapshots.iter().rev() {
            snapshots.extend(self.snapshot(*snap).await?);
        }
        Ok(ImageDetails {
            flags: reply.get(&flags)?,
            op_features: reply.get(&op_features)?,
            group: (pool >= 0).then_some((pool, group_id)),
            accessed: known(reply.get(&accessed)?),
            modified: known(reply.get(&modified)?),
            origin: Some(reply.get(&origin)?).filter(|spec| spec.pool >= 0),
            snapshots,
            info,
        })
    }

    /// What is known of a snapshot; none if it was removed since the list was read.
    async fn snapshot(&self, snap: u64) -> Result<Option<Snapshot>, Error> {
        let mut op = ReadOp::new();
        let info = op.call(&SnapshotGet { snap });
        let protection = op.call(&GetProtectionStatus { snap });
        let flags = op.call(&GetFlags { snap });
        let overlap = op.call(&ParentOverlapGet { snap });
        let reply = match self.pool.operate_read(&self.object(), op).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        let info = reply.get(&info)?;
        Ok(Some(Snapshot {
            id: info.id,
            name: info.name,
            kind: info.namespace,
            size: info.image_size,
            created: time(info.timestamp),
            children: info.child_count,
            protection: reply.get(&protection)?,
            flags: reply.get(&flags)?,
            overlap: reply.get(&overlap)?,
        }))
    }

    /// The pool of the image's data.
    pub(crate) async fn data_pool(&self, info: &ImageInfo) -> Result<Pool, Error> {
        match info.data_pool {
            Some(id) => {
                let pool = self.pool.cluster().pool_by_id(id).await?;
                Ok(pool.in_namespace(self.pool.namespace()))
            }
            None => Ok(self.pool.clone()),
        }
    }
}
