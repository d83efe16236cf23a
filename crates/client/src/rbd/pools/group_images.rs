use super::group::Group;
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use crate::rbd::header::Header;
use onego_ceph::cls::rbd::{
    DirGetName, GroupImageList, GroupImageRemove, GroupImageSet, GroupImageSpec, GroupImageStatus,
    ImageGroupAdd, ImageGroupRemove, link_state,
};
use onego_ceph::rbd::DIRECTORY;

const PAGE: u64 = 1024;

/// An image of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupImage {
    /// Name of the image's pool.
    pub pool: String,
    /// Name of the image.
    pub image: String,
    /// Whether an addition or removal is in progress.
    pub is_incomplete: bool,
}

/// Lists the images of a group by pool and name. Images in the trash have no name and are omitted.
pub async fn group_images(pool: &Pool, group: &str) -> Result<Vec<GroupImage>, Error> {
    let group = Group::named(pool, group).await?;
    let mut named = Vec::new();
    for GroupImageStatus { spec, state } in images(&group).await? {
        let pool = group.pool_of(spec.pool).await?;
        let image = match pool.call(DIRECTORY, &DirGetName { id: spec.image_id }).await {
            Err(Error::NotFound { .. }) => continue,
            found => found?,
        };
        let pool = pool.name().to_owned();
        named.push((spec.pool, GroupImage { pool, image, is_incomplete: state == link_state::INCOMPLETE }));
    }
    named.sort_by(|(pool, image), (other, another)| (pool, &image.image).cmp(&(other, &another.image)));
    Ok(named.into_iter().map(|(_, image)| image).collect())
}

/// Adds an image to a group in the same namespace.
///
/// Source: ceph `src/librbd/api/Group.cc`.
pub async fn add_to_group(
    (pool, group): (&Pool, &str),
    (image_pool, image): (&Pool, &str),
) -> Result<(), Error> {
    check_namespaces(pool, image_pool)?;
    let group = Group::named(pool, group).await?;
    let header = Header::named(image_pool, image).await?;
    header.needs_v2("the id that groups require", Errno::NOENT)?;
    let spec = GroupImageSpec { image_id: header.id.clone(), pool: image_pool.id() };
    let status = |state| GroupImageSet { status: GroupImageStatus { spec: spec.clone(), state } };
    group.change(&status(link_state::INCOMPLETE)).await?;
    if let Err(error) = header.change(&ImageGroupAdd { group: group.spec() }).await {
        // Undo the addition. The first error is the one to report.
        let _ = group.change(&GroupImageRemove { spec }).await;
        return Err(match error {
            Error::Exists { .. } => Error::Exists { what: format!("another group of {}", header.describe()) },
            error => error,
        });
    }
    header.notify_changed().await?;
    group.change(&status(link_state::ATTACHED)).await
}

/// Removes an image from a group.
pub async fn remove_from_group(
    (pool, group): (&Pool, &str),
    (image_pool, image): (&Pool, &str),
) -> Result<(), Error> {
    check_namespaces(pool, image_pool)?;
    let group = Group::named(&pool.with_full_try(), group).await?;
    let header = Header::named(image_pool, image).await?;
    header.needs_v2("the id that groups require", Errno::NOENT)?;
    unlink(&group, &GroupImageSpec { image_id: header.id, pool: image_pool.id() }).await
}

fn check_namespaces(group: &Pool, image: &Pool) -> Result<(), Error> {
    if group.namespace() == image.namespace() {
        Ok(())
    } else {
        Err(Error::Invalid("a group and its images must be in the same namespace".into()))
    }
}

pub(super) async fn images(group: &Group) -> Result<Vec<GroupImageStatus>, Error> {
    let mut all: Vec<GroupImageStatus> = Vec::new();
    loop {
        let after = all.last().map(|status| status.spec.clone()).unwrap_or_default();
        let page = group.call(&GroupImageList { after, max: PAGE }).await?;
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Removes the link between a group and an image on both sides.
pub(super) async fn unlink(group: &Group, spec: &GroupImageSpec) -> Result<(), Error> {
    let status = GroupImageStatus { spec: spec.clone(), state: link_state::INCOMPLETE };
    group.change(&GroupImageSet { status }).await?;
    let header = Header::with_id(&group.pool_of(spec.pool).await?, &spec.image_id).await?;
    match header.change(&ImageGroupRemove { group: group.spec() }).await {
        Ok(()) => header.notify_changed().await?,
        Err(Error::NotFound { .. } | Error::Refused { errno: Errno(61), .. }) => {}
        Err(error) => return Err(error),
    }
    group.change(&GroupImageRemove { spec: spec.clone() }).await
}
