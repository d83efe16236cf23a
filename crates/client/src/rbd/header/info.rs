use super::place::place;
use crate::ceph::error::Error;
use crate::rados::{Cluster, Pool};
use onego_ceph::client::WatchTarget;
use onego_ceph::cls::rbd::{DirGetName, GetSnapshotName, feature};
use onego_ceph::rbd::{DIRECTORY, DataNames, Features, ImageFormat, Layout, header_object};
use onego_rbd::{DataObjects, ImageFacts, ImageState};
use std::time::SystemTime;

/// Features with separate objects, which "rbd feature disable" can switch off.
const SWITCHABLE: Features = Features(feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::FAST_DIFF);

/// Basic properties of an image.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Name of the image.
    pub name: String,
    /// Id of the image, which survives renaming; empty for format 1.
    pub id: String,
    /// Format of the header.
    pub format: ImageFormat,
    /// Size in bytes.
    pub size: u64,
    /// Layout of the data in objects.
    pub layout: Layout,
    /// Features of the image.
    pub features: Features,
    /// Prefix of the names of its data objects.
    pub object_prefix: String,
    /// Number of the data pool, if not the image's own pool.
    pub data_pool: Option<i64>,
    /// Snapshot numbers, newest first.
    pub snapshots: Vec<u64>,
    /// Creation time, if the cluster recorded it.
    pub created: Option<SystemTime>,
    /// The parent of a clone, which supplies the data that the clone lacks.
    pub parent: Option<Parent>,
    pub(crate) state: ImageState,
}

/// The snapshot that a clone was created from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parent {
    /// Number of the parent's pool.
    pub pool: i64,
    /// Namespace of the parent; empty for none.
    pub namespace: String,
    /// Id of the parent image.
    pub image: String,
    /// Number of the snapshot.
    pub snapshot: u64,
    /// Number of bytes, from the start, that the clone may read from the parent.
    pub overlap: u64,
}

impl Parent {
    /// Looks up the parent's name in `rbd` notation: pool/image@snapshot.
    pub async fn name(&self, cluster: &Cluster) -> Result<String, Error> {
        let pool = cluster.pool_by_id(self.pool).await?.in_namespace(&self.namespace);
        let image = pool.call(DIRECTORY, &DirGetName { id: self.image.clone() }).await?;
        let header = header_object(&self.image).to_string();
        let snapshot = pool.call(&header, &GetSnapshotName { snap: self.snapshot }).await?;
        Ok(format!("{}/{image}@{snapshot}", place(&pool)))
    }
}

impl ImageInfo {
    /// Returns the number of objects that the image may consist of.
    pub fn objects(&self) -> u64 {
        self.layout.objects(self.size)
    }

    /// Returns whether the image has format 1.
    pub fn is_old_format(&self) -> bool {
        self.format == ImageFormat::V1
    }

    /// Returns the name of the header object.
    pub fn header_object(&self) -> String {
        self.format.header_object(&self.name, &self.id).to_string()
    }

    /// Returns the names of the data objects.
    pub fn data_names(&self) -> DataNames {
        self.format.data_names(&self.object_prefix)
    }

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

    /// Fails if a write would invalidate state that Onego does not maintain.
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
