//! What is known of an image: its id by its name, and what its header says.

use crate::ceph::error::Error;
use crate::ceph::flush::Writes;
use crate::ceph::image_io::Shape;
use crate::ceph::image_size::SIZE_QUERY;
use crate::rados::{Cluster, Pool, ReadOp};
use onego_ceph::cls::rbd::{
    DirGetName, GetCreateTimestamp, GetDataPool, GetFeatures, GetId, GetObjectPrefix, GetSnapContext,
    GetSnapshotName, GetStripeUnitCount, NamespaceList, ParentGet, ParentOverlapGet, Size, StripeUnitCount,
    feature,
};
use onego_ceph::rbd::{DIRECTORY, DataNames, Features, Layout, header_object, id_object};
use onego_ceph::types::{NOSNAP, SnapContext};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

/// The object that lists a pool's namespaces (`RBD_NAMESPACE`).
pub(super) const NAMESPACES: &str = "rbd_namespace";

/// Features that are kept in objects of their own, which "rbd feature disable" takes away.
pub(crate) const SWITCHABLE: Features =
    Features(feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::FAST_DIFF);

/// What is known of an image.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// Its name.
    pub name: String,
    /// Its id, which stays when the name changes.
    pub id: String,
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
    pub(crate) snap_context: SnapContext,
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

/// A pool and its namespace as `rbd` writes them.
pub(crate) fn place(pool: &Pool) -> String {
    match pool.namespace() {
        "" => pool.name().to_owned(),
        namespace => format!("{}/{namespace}", pool.name()),
    }
}

/// The name of an image in messages.
pub(crate) fn describe(pool: &Pool, name: &str) -> String {
    format!("image {}/{name}", place(pool))
}

/// Namespaces asked for at a time when one is looked for.
const NAMESPACE_PAGE: u64 = 1024;

/// Fails if the namespace does not exist: images in it would not be found by those who list namespaces.
pub(crate) async fn check_namespace(pool: &Pool) -> Result<(), Error> {
    let namespace = pool.namespace();
    if namespace.is_empty() {
        return Ok(());
    }
    let missing = || Error::NotFound { what: format!("namespace {}/{namespace}", pool.name()) };
    let mut after = String::new();
    loop {
        let call = NamespaceList { after, max: NAMESPACE_PAGE };
        let page = match pool.in_namespace("").call(NAMESPACES, &call).await {
            Err(Error::NotFound { .. }) => return Err(missing()),
            other => other?,
        };
        if page.iter().any(|name| name == namespace) {
            return Ok(());
        }
        match page.last() {
            Some(last) if page.len() as u64 == NAMESPACE_PAGE => after = last.clone(),
            _ => return Err(missing()),
        }
    }
}

/// The id of the image called `name`.
pub(crate) async fn image_id(pool: &Pool, name: &str) -> Result<String, Error> {
    match pool.call(&id_object(name).to_string(), &GetId {}).await {
        Err(Error::NotFound { .. }) => Err(Error::NotFound { what: describe(pool, name) }),
        other => other,
    }
}

/// What is known of an image, without opening it: also of one that cannot be opened here.
pub async fn info(pool: &Pool, name: &str) -> Result<ImageInfo, Error> {
    let id = image_id(pool, name).await?;
    info_of(pool, name, id).await
}

/// The same of an image whose id is known already.
pub(crate) async fn info_of(pool: &Pool, name: &str, id: String) -> Result<ImageInfo, Error> {
    let header = header_object(&id).to_string();
    let mut op = ReadOp::new();
    let size = op.call(&SIZE_QUERY);
    let features = op.call(&GetFeatures { snap: NOSNAP, read_only: true });
    let prefix = op.call(&GetObjectPrefix {});
    let snaps = op.call(&GetSnapContext {});
    let reply = pool.operate_read(&header, op).await?;
    let Size { order, size } = reply.get(&size)?;
    let features = Features(reply.get(&features)?.features);
    let snap_context = reply.get(&snaps)?;
    let mut layout = Layout::plain(order)?;
    if features.contains(Features::STRIPING) {
        let StripeUnitCount { unit, count } = pool.call(&header, &GetStripeUnitCount {}).await?;
        layout = Layout::striped(order, unit, count)?;
    }
    let mut data_pool = None;
    if features.contains(Features::DATA_POOL) {
        data_pool = Some(pool.call(&header, &GetDataPool {}).await?).filter(|pool| *pool >= 0);
    }
    let mut parent = None;
    if features.contains(Features::LAYERING) {
        let mut op = ReadOp::new();
        let spec = op.call(&ParentGet {});
        let overlap = op.call(&ParentOverlapGet { snap: NOSNAP });
        let reply = pool.operate_read(&header, op).await?;
        let spec = reply.get(&spec)?;
        // A flattened image whose snapshots still need the parent has none itself.
        parent = reply.get(&overlap)?.filter(|_| spec.pool >= 0).map(|overlap| Parent {
            pool: spec.pool,
            namespace: spec.namespace,
            image: spec.image_id,
            snapshot: spec.snap,
            overlap,
        });
    }
    // Images of old clusters do not know when they were made.
    let created = pool.call(&header, &GetCreateTimestamp {}).await.ok();
    Ok(ImageInfo {
        name: name.to_owned(),
        id,
        size,
        layout,
        features,
        object_prefix: reply.get(&prefix)?,
        data_pool,
        snapshots: snap_context.snaps.clone(),
        created: created.map(|t| SystemTime::UNIX_EPOCH + Duration::new(t.sec.into(), t.nsec)),
        parent,
        snap_context,
    })
}

impl ImageInfo {
    /// Objects that the image may consist of.
    pub fn objects(&self) -> u64 {
        self.layout.objects(self.size)
    }

    /// What requests to the image have to know of it, if it has `size` bytes.
    pub(crate) fn shape(&self, pool: &Pool, size: u64) -> Shape {
        Shape {
            pool: self.data_pool.unwrap_or_else(|| pool.id()),
            namespace: pool.namespace().to_owned(),
            flags: pool.flags(),
            names: DataNames::new(&self.object_prefix),
            layout: self.layout,
            snap_context: self.snap_context.clone(),
            size: AtomicU64::new(size),
            writes: Writes::default(),
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

    /// Fails if the image's bytes are not, or not only, where its layout says.
    pub(crate) fn check_readable(&self) -> Result<(), Error> {
        if self.parent.is_some() {
            return Err(Error::Clone { image: self.name.clone(), action: "read" });
        }
        let features = Features(self.features.0 & Features::UNREADABLE.0);
        if features.is_empty() {
            return Ok(());
        }
        Err(Error::Features { image: self.name.clone(), action: "read", features, advice: "" })
    }
}
