use crate::ceph::error::Error;
use crate::rados::{Pool, Watch, Watcher};
use crate::rbd::header::Header;

/// Lists the clients that have an image open.
pub async fn watchers(pool: &Pool, image: &str) -> Result<Vec<Watcher>, Error> {
    let header = Header::named(pool, image).await?;
    pool.watchers(&header.object()).await
}

/// Watches the notifications between the users of an image.
pub async fn watch(pool: &Pool, image: &str) -> Result<Watch, Error> {
    let header = Header::named(pool, image).await?;
    pool.watch(&header.object()).await
}
