//! What every user of an image needs to know of it.

use super::place::place;
use crate::ceph::error::Error;
use crate::rados::{Cluster, Pool};
use onego_ceph::client::WatchTarget;
use onego_ceph::cls::rbd::{DirGetName, GetSnapshotName, feature};
use onego_ceph::rbd::{DIRECTORY, DataNames, Features, ImageFormat, Layout, header_object};
use onego_rbd::{DataObjects, ImageFacts, ImageState};
use std::time::SystemTime;

/// Features that are kept in objects of their own, which "rbd feature disable" takes away.
const SWITCHABLE: Features = Features(feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::FAST_DIFF);

/// What is known of an image.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Its name.
    pub name: String,
    /// Its id, which stays when the name changes. Empty: it is of format 1.
    pub id: String,
    /// In which form its header is kept.
    pub format: ImageFormat,
    /// Bytes.
    pub size: u64,
    /// How its bytes lie in objects.
    pub layout: Layout,
    /// Its features.
    pub features: Features,
    /// What names of its data objects start with.
    pub object_prefix: String,
    /// Number of the pool of its data objects, if that is another one.
    pub data_pool: Option<i64>,
    /// Snapshots, newest first.
    pub snapshots: Vec<u64>,
    /// When it was created, if the cluster remembers.
    pub created: Option<SystemTime>,
    /// For a clone, the snapshot that holds what it does not hold itself.
    pub parent: Option<Parent>,
    pub(crate) state: ImageState,
}

/// The snapshot that a clone was made of.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parent {
    /// Number of its pool.
    pub pool: i64,
    /// Its namespace within the pool; empty: none.
    pub namespace: String,
    /// Id of its image.
    pub image: String,
    /// Number of the snapshot.
    pub snapshot: u64,
    /// Bytes, from the start, of which the clone may show the parent's.
    pub overlap: u64,
}

impl Parent {
    /// Looks the parent's name up, as `rbd` writes it: pool/image@snapshot.
    pub async fn name(&self, cluster: &Cluster) -> Result<String, Error> {
        let pool = cluster.pool_by_id(self.pool).await?.in_namespace(&self.namespace);
        let image = pool.call(DIRECTORY, &DirGetName { id: self.image.clone() }).await?;
        let header = header_object(&self.image).to_string();
        let snapshot = pool.call(&header, &GetSnapshotName { snap: self.snapshot }).await?;
        Ok(format!("{}/{image}@{snapshot}", place(&pool)))
    }
}

impl ImageInfo {
    /// Objects that the image may consist of.
    pub fn objects(&self) -> u64 {
        self.layout.objects(self.size)
    }

    /// Is it of format 1?
    pub fn is_old_format(&self) -> bool {
        self.format == ImageFormat::V1
    }

    /// The object that has its header.
    pub fn header_object(&self) -> String {
        self.format.header_object(&self.name, &self.id).to_string()
    }

    /// What its data objects are called.
    pub fn data_names(&self) -> DataNames {
        self.format.data_names(&self.object_prefix)
    }

    /// Where the image's data lies, seen at a snapshot or without one.
    pub(in crate::rbd) fn data(&self, pool: &Pool, snap: u64) -> DataObjects {
        DataObjects {
            pool: self.data_pool.unwrap_or_else(|| pool.id()),
            namespace: pool.namespace().to_owned(),
            flags: pool.flags(),
            names: self.data_names(),
            layout: self.layout,
            snap,
            encryption: None,
        }
    }

    /// What an open image has to know, without the ancestors of a clone.
    pub(crate) fn facts(&self, pool: &Pool, snap: u64) -> ImageFacts {
        let object = self.format.header_object(&self.name, &self.id);
        let id = if self.is_old_format() { &self.name } else { &self.id };
        ImageFacts {
            id: id.clone(),
            header: WatchTarget {
                pool: pool.id(),
                object,
                namespace: onego_wire::text::to_bytes(pool.namespace()).into_owned(),
            },
            format: self.format,
            data: self.data(pool, snap),
            state: self.state.clone(),
            parent: None,
        }
    }

    /// Fails if a write would leave something behind that is no longer true.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        let features = self.features.without(Features::WRITABLE);
        if features.is_empty() {
            return Ok(());
        }
        let advice = if SWITCHABLE.contains(features) {
            "; switch them off with \"rbd feature disable\", or create the image without them"
        } else {
            ""
        };
        Err(Error::Features { image: self.name.clone(), action: "written", features, advice })
    }
}
