use super::handle::Header;
use super::info::ImageInfo;
use super::place::{GROUP_DIRECTORY, TRASH, place};
use crate::ceph::error::Error;
use crate::rados::{Cluster, Pool};
use crate::rbd::snapshot::Snapshot;
use onego_ceph::cls::rbd::{DirGetName, GetSnapshotName, ParentImageSpec, TrashGet, op_feature};
use onego_ceph::rbd::{DIRECTORY, header_object};
use onego_ceph::types::Utime;
use std::time::{Duration, SystemTime};

/// All properties of an image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageDetails {
    /// Basic properties.
    pub info: ImageInfo,
    /// Flags; see `onego_ceph::cls::rbd::image_flag`.
    pub flags: u64,
    /// Features in use by operations; see `onego_ceph::cls::rbd::op_feature`.
    pub op_features: u64,
    /// Number of the pool and id of the image's group, if any.
    pub group: Option<(i64, String)>,
    /// Time of the last recorded read.
    pub accessed: Option<SystemTime>,
    /// Time of the last recorded write.
    pub modified: Option<SystemTime>,
    /// Snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// Snapshot that the image, or one of its snapshots, was cloned from.
    pub(crate) origin: Option<ParentImageSpec>,
}

impl ImageDetails {
    /// Returns the properties of the image called `name`.
    pub async fn of(pool: &Pool, name: &str) -> Result<Self, Error> {
        Header::named(pool, name).await?.details().await
    }

    /// Returns the properties of the image with this id, which may be in the trash.
    pub async fn of_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        Header::with_id_and_name(pool, id).await?.details().await
    }

    /// Returns the current properties of an image whose info is known, even if it has been renamed since.
    pub async fn of_known(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        Header::of(pool, image).renamed().await?.details().await
    }

    /// Returns whether the image is a clone that the parent's snapshot itself counts.
    pub(crate) fn is_counted_clone(&self) -> bool {
        self.op_features & op_feature::CLONE_CHILD != 0
    }

    /// Returns a user's snapshot by name.
    pub fn snapshot(&self, name: &str) -> Result<&Snapshot, Error> {
        let named = self.snapshots.iter().find(|snapshot| snapshot.is_users() && snapshot.name == name);
        named.ok_or_else(|| Error::NotFound { what: format!("snapshot {}@{name}", self.info.name) })
    }

    /// Returns a snapshot of any kind by number.
    pub fn snapshot_by_id(&self, id: u64) -> Result<&Snapshot, Error> {
        let found = self.snapshots.iter().find(|snapshot| snapshot.id == id);
        found.ok_or_else(|| Error::NotFound { what: format!("snapshot {id} of {}", self.info.name) })
    }

    /// Returns the names of the snapshot that the image was cloned from.
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

    /// Returns the name of the image's group: pool/group.
    pub async fn group_name(&self, pool: &Pool) -> Result<Option<String>, Error> {
        let Some((id, group)) = &self.group else { return Ok(None) };
        let pool = pool.cluster().pool_by_id(*id).await?.in_namespace(pool.namespace());
        let name = pool.call(GROUP_DIRECTORY, &DirGetName { id: group.clone() }).await?;
        Ok(Some(format!("{}/{name}", place(&pool))))
    }
}

/// Names of the snapshot that a clone was created from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParentName {
    /// Pool with optional namespace: POOL or POOL/NAMESPACE.
    pub place: String,
    /// Name of the parent image.
    pub image: String,
    /// Id of the parent image.
    pub id: String,
    /// Name of the snapshot.
    pub snapshot: String,
    /// Whether the parent image is in the trash.
    pub in_trash: bool,
}

pub(crate) fn time(at: Utime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(at.sec.into(), at.nsec)
}
