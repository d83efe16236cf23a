//! All that an image's header says, as operations on the image need it.

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
        Header::with_id_and_name(pool, id).await?.details().await
    }

    /// What is known now of an image that was known before, whatever it is called by now.
    pub async fn of_known(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        Header::of(pool, image).renamed().await?.details().await
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

/// A time of the cluster.
pub(crate) fn time(at: Utime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(at.sec.into(), at.nsec)
}
