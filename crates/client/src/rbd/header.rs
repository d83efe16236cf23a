//! What is known of an image: its id by its name, and what its header says.

use crate::ceph::error::{Errno, Error, undecodable};
use crate::rados::{Cluster, Pool, ReadOp};
use onego_ceph::client::WatchTarget;
use onego_ceph::cls::rbd::{
    DirGetName, GetCreateTimestamp, GetDataPool, GetId, GetObjectPrefix, GetSize, GetSnapshotName,
    GetStripeUnitCount, NamespaceList, StripeUnitCount, feature,
};
use onego_ceph::rbd::{DIRECTORY, DataNames, Features, Layout, header_object, id_object};
use onego_ceph::types::NOSNAP;
use onego_rbd::{DataObjects, ImageFacts, ImageState};
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
        Err(Error::NotFound { .. }) => Err(missing(pool, name).await),
        other => other,
    }
}

/// Why there is no image called `name`. One of format 1 has its header in an object of its own name.
async fn missing(pool: &Pool, name: &str) -> Error {
    match pool.stat(&format!("{name}.rbd")).await {
        Ok(_) => Error::Unmet {
            what: format!(
                "{} is of format 1, which has ended: \"rbd migration\" of Ceph makes one of format 2 of it",
                describe(pool, name)
            ),
            errno: Errno::OPNOTSUPP,
        },
        Err(_) => Error::NotFound { what: describe(pool, name) },
    }
}

/// What is known of an image, without opening it: also of one that cannot be opened here.
pub async fn info(pool: &Pool, name: &str) -> Result<ImageInfo, Error> {
    let id = image_id(pool, name).await?;
    info_by_id(pool, name, &id, NOSNAP).await
}

/// What is known of the image with `id`, at a snapshot or without one.
pub(crate) async fn info_by_id(pool: &Pool, name: &str, id: &str, snap: u64) -> Result<ImageInfo, Error> {
    let header = header_object(id).to_string();
    let mut op = ReadOp::new();
    let prefix = op.call(&GetObjectPrefix {});
    let size = op.call(&GetSize { snap });
    let outputs = ImageState::query(snap).map(|query| op.raw(query));
    let reply = pool.operate_read(&header, op).await?;
    let outputs = outputs.each_ref().map(|output| reply.get(output));
    let [a, b, c, d, e, f] = &outputs;
    let list = |output: &Result<onego_buf::List, Error>| output.as_ref().cloned().unwrap_or_default();
    let lists = [list(a), list(b), list(c), list(d), list(e), list(f)];
    let state =
        ImageState::parse(&lists.each_ref()).map_err(|error| undecodable(describe(pool, name), error))?;
    let order = reply.get(&size)?.order;
    let mut layout = Layout::plain(order)?;
    if state.features.contains(Features::STRIPING) {
        let StripeUnitCount { unit, count } = pool.call(&header, &GetStripeUnitCount {}).await?;
        layout = Layout::striped(order, unit, count)?;
    }
    let mut data_pool = None;
    if state.features.contains(Features::DATA_POOL) {
        data_pool = Some(pool.call(&header, &GetDataPool {}).await?).filter(|pool| *pool >= 0);
    }
    let has_parent = state.parent.pool >= 0 && !state.parent.image_id.is_empty() && state.overlap > 0;
    let parent = has_parent.then(|| Parent {
        pool: state.parent.pool,
        namespace: state.parent.namespace.clone(),
        image: state.parent.image_id.clone(),
        snapshot: state.parent.snap,
        overlap: state.overlap,
    });
    // Images of old clusters do not know when they were made.
    let created = pool.call(&header, &GetCreateTimestamp {}).await.ok();
    Ok(ImageInfo {
        name: name.to_owned(),
        id: id.to_owned(),
        size: state.size,
        layout,
        features: state.features,
        object_prefix: reply.get(&prefix)?,
        data_pool,
        snapshots: state.snap_context.snaps.clone(),
        created: created.map(|t| SystemTime::UNIX_EPOCH + Duration::new(t.sec.into(), t.nsec)),
        parent,
        state,
    })
}

impl ImageInfo {
    /// Objects that the image may consist of.
    pub fn objects(&self) -> u64 {
        self.layout.objects(self.size)
    }

    /// Where the image's data lies, seen at a snapshot or without one.
    pub(super) fn data(&self, pool: &Pool, snap: u64) -> DataObjects {
        DataObjects {
            pool: self.data_pool.unwrap_or_else(|| pool.id()),
            namespace: pool.namespace().to_owned(),
            flags: pool.flags(),
            names: DataNames::new(&self.object_prefix),
            layout: self.layout,
            snap,
        }
    }

    /// What an open image has to know, without the ancestors of a clone.
    pub(crate) fn facts(&self, pool: &Pool, snap: u64) -> ImageFacts {
        let (object, namespace) = (header_object(&self.id), pool.namespace().to_owned());
        ImageFacts {
            id: self.id.clone(),
            header: WatchTarget { pool: pool.id(), object, namespace },
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
