use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{self, NAMESPACES, TRASH};
use crate::rbd::release::ignore_missing;
use onego_ceph::cls::rbd::{DirStateSet, NamespaceAdd, NamespaceList, NamespaceRemove, directory_state};
use onego_ceph::rbd::DIRECTORY;

const PAGE: u64 = 1024;

/// Lists the namespaces for images in a pool.
pub async fn namespaces(pool: &Pool) -> Result<Vec<String>, Error> {
    let pool = pool.in_namespace("");
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().cloned().unwrap_or_default();
        let page = match pool.call(NAMESPACES, &NamespaceList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(all),
            other => other?,
        };
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Returns whether a pool has a namespace for images.
pub async fn namespace_exists(pool: &Pool, name: &str) -> Result<bool, Error> {
    header::namespace_exists(pool, name).await
}

/// Creates a namespace for images in a pool.
pub async fn create_namespace(pool: &Pool, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::Invalid("the name of a namespace must not be empty".into()));
    }
    let what = || format!("namespace {}/{name}", pool.name());
    let add = WriteOp::new().call(&NamespaceAdd { name: name.to_owned() });
    pool.in_namespace("").operate_write(NAMESPACES, add).await.map_err(|error| match error {
        Error::Exists { .. } => Error::Exists { what: what() },
        error => error,
    })?;
    set_state(&pool.in_namespace(name), directory_state::READY).await
}

/// Removes a namespace. Fails with [`Error::Busy`] if it contains images.
///
/// Source: ceph `src/librbd/api/Namespace.cc`.
pub async fn remove_namespace(pool: &Pool, name: &str) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let (outside, within) = (pool.in_namespace(""), pool.in_namespace(name));
    let what = || format!("namespace {}/{name}", pool.name());
    if !namespaces(pool).await?.iter().any(|known| known == name) {
        return Err(Error::NotFound { what: what() });
    }
    // From here on no image can be created in it.
    match set_state(&within, directory_state::ADD_DISABLED).await {
        Err(Error::Refused { errno: Errno::BUSY, .. }) => {
            return Err(busy(format!("{} contains images: remove them first", what())));
        }
        Err(Error::NotFound { .. }) => {}
        other => other?,
    }
    let removed = async {
        if !super::trash::trash(&within).await?.is_empty() {
            return Err(busy(format!("{} has images in its trash: remove them first", what())));
        }
        for object in [DIRECTORY, TRASH] {
            ignore_missing(within.remove(object).await)?;
        }
        let remove = WriteOp::new().call(&NamespaceRemove { name: name.to_owned() });
        outside.operate_write(NAMESPACES, remove).await.map(drop)
    };
    let removed = removed.await;
    if removed.is_err() {
        // The namespace stays in use. The first error is the one to report.
        let _ = set_state(&within, directory_state::READY).await;
    }
    removed
}

fn busy(what: String) -> Error {
    Error::Unmet { what, errno: Errno::BUSY }
}

async fn set_state(within: &Pool, state: u8) -> Result<(), Error> {
    within.operate_write(DIRECTORY, WriteOp::new().call(&DirStateSet { state })).await.map(drop)
}
