use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::{Header, TRASH};
use crate::rbd::release::CHILDREN;
use onego_ceph::cls::rbd::{ChildImageSpec, ChildrenList, DirGetName, GetChildren, TrashGet};
use onego_ceph::rbd::{DIRECTORY, ImageFormat};

/// A clone of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Child {
    /// Name of the clone's pool.
    pub pool: String,
    /// Namespace of the clone; empty for none.
    pub namespace: String,
    /// Name of the clone.
    pub image: String,
    /// Id of the clone.
    pub id: String,
    /// Whether the clone is in the trash.
    pub in_trash: bool,
}

/// Lists the clones of an image's snapshot, or of all its snapshots, by name, including those in the trash.
pub async fn children(pool: &Pool, image: &str, snapshot: Option<&str>) -> Result<Vec<Child>, Error> {
    let header = Header::named(pool, image).await?;
    let details = header.details().await?;
    let snaps = match snapshot {
        Some(name) => vec![details.snapshot(name)?.id],
        None => details.snapshots.iter().map(|snapshot| snapshot.id).collect(),
    };
    children_at(&header, &snaps).await
}

/// Like [`children`], for an image by its id and a snapshot of any kind by its number.
pub async fn children_of_id(pool: &Pool, id: &str, snapshot: Option<u64>) -> Result<Vec<Child>, Error> {
    let header = Header::with_id(pool, id).await?;
    let snaps = match snapshot {
        Some(snap) => vec![snap],
        None => header.details().await?.snapshots.iter().map(|snapshot| snapshot.id).collect(),
    };
    children_at(&header, &snaps).await
}

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

pub(in crate::rbd) async fn has_children(header: &Header, snap: u64) -> Result<bool, Error> {
    Ok(!all_children(header, snap).await?.is_empty())
}

async fn all_children(header: &Header, snap: u64) -> Result<Vec<ChildImageSpec>, Error> {
    if header.format == ImageFormat::V1 {
        return Ok(Vec::new()); // images of format 1 have no id, and therefore no clones
    }
    let mut children = counted_children(header, snap).await?;
    children.extend(header.call(&ChildrenList { snap }).await.or_else(none_if_missing)?);
    Ok(children)
}

/// Returns the clones of a snapshot of the first format, which every pool lists for itself in the parent's namespace.
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
