//! A pool and its namespace, and the objects there that list something.

use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_ceph::cls::rbd::NamespaceList;

/// The object that lists a pool's namespaces (`RBD_NAMESPACE`).
pub(crate) const NAMESPACES: &str = "rbd_namespace";

/// The object that lists a pool's images in the trash (`RBD_TRASH`).
pub(crate) const TRASH: &str = "rbd_trash";

/// The object that lists a pool's groups (`RBD_GROUP_DIRECTORY`).
pub(crate) const GROUP_DIRECTORY: &str = "rbd_group_directory";

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
