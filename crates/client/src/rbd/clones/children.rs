use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::{Header, TRASH};
use crate::rbd::release::CHILDREN;
use onego_ceph::cls::rbd::{ChildImageSpec, ChildrenList, DirGetName, GetChildren, TrashGet};
use onego_ceph::rbd::{DIRECTORY, ImageFormat};

/// A clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Child {
    /// Name of its pool.
    pub pool: String,
    /// Its namespace within the pool; empty: none.
    pub namespace: String,
    /// Its name.
    pub image: String,
    /// Its id.
    pub id: String,
    /// Is it in the trash?
    pub in_trash: bool,
}

/// The clones of an image's snapshot, or of all of its snapshots, by name. Those in the trash are among them.
pub async fn children(pool: &Pool, image: &str, snapshot: Option<&str>) -> Result<Vec<Child>, Error> {
    let header = Header::named(pool, image).await?;
    let details = header.details().await?;
    let snaps = match snapshot {
        Some(name) => vec![details.snapshot(name)?.id],
        None => details.snapshots.iter().map(|snapshot| snapshot.id).collect(),
    };
    children_at(&header, &snaps).await
}

/// The same of an image by its id, and of a snapshot of any kind by its number.
pub async fn children_of_id(pool: &Pool, id: &str, snapshot: Option<u64>) -> Result<Vec<Child>, Error> {
    let header = Header::with_id(pool, id).await?;
    let snaps = match snapshot {
        Some(snap) => vec![snap],
        None => header.details().await?.snapshots.iter().map(|snapshot| snapshot.id).collect(),
    };
    children_at(&header, &snaps).await
}

/// The clones of an image's snapshots.
pub(in crate::rbd) async fn children_at(header: &Header, snaps: &[u64]) -> Result<Vec<Child>, Error> {
    let mut children = Vec::new();
    for snap in snaps {
        for child in all_children(header, *snap).await? {
            children.extend(named(header, child).await?);
        }
    }
    children.sort();
    Ok(children)
}

/// Has a snapshot clones, of either format?
pub(in crate::rbd) async fn has_children(header: &Header, snap: u64) -> Result<bool, Error> {
    Ok(!all_children(header, snap).await?.is_empty())
}

/// The clones of a snapshot, of both formats.
async fn all_children(header: &Header, snap: u64) -> Result<Vec<ChildImageSpec>, Error> {
    if header.format == ImageFormat::V1 {
        return Ok(Vec::new()); // it has no id, by which clones know their parents
    }
    let mut children = counted_children(header, snap).await?;
    children.extend(header.call(&ChildrenList { snap }).await.or_else(none_if_missing)?);
    Ok(children)
}

/// The clones of a snapshot of the first format, which every pool lists for itself in the
/// parent's namespace.
pub(in crate::rbd) async fn counted_children(
    header: &Header,
    snap: u64,
) -> Result<Vec<ChildImageSpec>, Error> {
    let cluster = header.pool.cluster();
    let call = GetChildren { pool: header.pool.id(), image_id: header.id.clone(), snap };
    let namespace = header.pool.namespace().to_owned();
    let mut children = Vec::new();
    for pool in cluster.pools().await? {
        let within = cluster.pool_by_id(pool.id).await?.in_namespace(&namespace);
        let found = within.call(CHILDREN, &call).await.or_else(none_if_missing)?;
        let spec = |image_id| ChildImageSpec { pool: pool.id, image_id, namespace: namespace.clone() };
        children.extend(found.into_iter().map(spec));
    }
    Ok(children)
}

fn none_if_missing<T>(error: Error) -> Result<Vec<T>, Error> {
    match error {
        Error::NotFound { .. } => Ok(Vec::new()),
        error => Err(error),
    }
}

/// A clone by its name; none if it is gone by now.
async fn named(header: &Header, child: ChildImageSpec) -> Result<Option<Child>, Error> {
    let ChildImageSpec { pool, image_id: id, namespace } = child;
    let pool = header.pool.cluster().pool_by_id(pool).await?.in_namespace(&namespace);
    let (image, in_trash) = match pool.call(DIRECTORY, &DirGetName { id: id.clone() }).await {
        Ok(name) => (name, false),
        Err(Error::NotFound { .. }) => match pool.call(TRASH, &TrashGet { id: id.clone() }).await {
            Ok(spec) => (spec.name, true),
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        },
        Err(error) => return Err(error),
    };
    Ok(Some(Child { pool: pool.name().to_owned(), namespace, image, id, in_trash }))
}
