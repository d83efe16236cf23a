use super::group::{Group, describe};
use super::group_images::{images, unlink};
use super::group_snapshots::{records, remove_record};
use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::create::new_id;
use crate::rbd::header::GROUP_DIRECTORY as DIRECTORY;
use crate::rbd::release::ignore_missing;
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{GroupDirAdd, GroupDirList, GroupDirRemove, GroupDirRename};

const PAGE: u64 = 1024;

/// Lists the names of a pool's groups.
pub async fn groups(pool: &Pool) -> Result<Vec<String>, Error> {
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().cloned().unwrap_or_default();
        let page = match pool.call(DIRECTORY, &GroupDirList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(all),
            other => other?,
        };
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page.into_keys());
        if is_last {
            return Ok(all);
        }
    }
}

/// Creates an empty group of images.
pub async fn create_group(pool: &Pool, name: &str) -> Result<(), Error> {
    let id = new_id(pool)?;
    let add = GroupDirAdd { name: name.to_owned(), id: id.clone() };
    change(pool, &add).await.map_err(|error| match error {
        Error::Exists { .. } => Error::Exists { what: describe(pool, name) },
        error => error,
    })?;
    if let Err(error) = pool.create(&Group::object_of(&id), true).await {
        // A group without a header is unusable. The first error is the one to report.
        let _ = change(pool, &GroupDirRemove { name: name.to_owned(), id }).await;
        return Err(error);
    }
    Ok(())
}

/// Renames a group.
pub async fn rename_group(pool: &Pool, from: &str, to: &str) -> Result<(), Error> {
    let group = Group::named(pool, from).await?;
    change(pool, &GroupDirRename { from: from.to_owned(), to: to.to_owned(), id: group.id }).await
}

/// Removes a group with its snapshots; its images stay. No-op if the group does not exist, as in Ceph.
pub async fn remove_group(pool: &Pool, name: &str) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let group = match Group::named(pool, name).await {
        Err(Error::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    for record in records(&group).await? {
        remove_record(&group, &record).await?;
    }
    for image in images(&group).await? {
        unlink(&group, &image.spec).await?;
    }
    ignore_missing(pool.remove(&group.object()).await)?;
    change(pool, &GroupDirRemove { name: name.to_owned(), id: group.id }).await
}

async fn change<M: Method>(pool: &Pool, method: &M) -> Result<(), Error> {
    pool.operate_write(DIRECTORY, WriteOp::new().call(method)).await.map(drop)
}
