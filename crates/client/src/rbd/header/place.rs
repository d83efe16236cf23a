use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_ceph::cls::rbd::{DirStateAssert, directory_state};
use onego_ceph::rbd::DIRECTORY;

/// Object that lists a pool's namespaces (`RBD_NAMESPACE`).
pub(crate) const NAMESPACES: &str = "rbd_namespace";

/// Object that lists a pool's images in the trash (`RBD_TRASH`).
pub(crate) const TRASH: &str = "rbd_trash";

/// Object that lists a pool's groups (`RBD_GROUP_DIRECTORY`).
pub(crate) const GROUP_DIRECTORY: &str = "rbd_group_directory";

pub(crate) fn place(pool: &Pool) -> String {
    match pool.namespace() {
        "" => pool.name().to_owned(),
        namespace => format!("{}/{namespace}", pool.name()),
    }
}

pub(crate) fn describe(pool: &Pool, name: &str) -> String {
    format!("image {}/{name}", place(pool))
}

/// Returns whether a namespace may contain images, according to the namespace's own directory: a user confined to a
/// namespace can read nothing outside it (ceph `src/librbd/api/Namespace.cc`, `exists`).
pub(crate) async fn namespace_exists(pool: &Pool, namespace: &str) -> Result<bool, Error> {
    let is_ready = DirStateAssert { state: directory_state::READY };
    match pool.in_namespace(namespace).call(DIRECTORY, &is_ready).await {
        Ok(()) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fails if the namespace does not exist: listings of namespaces would not reveal the images in it.
pub(crate) async fn check_namespace(pool: &Pool) -> Result<(), Error> {
    let namespace = pool.namespace();
    if namespace.is_empty() || namespace_exists(pool, namespace).await? {
        return Ok(());
    }
    Err(Error::NotFound { what: format!("namespace {}/{namespace}", pool.name()) })
}
