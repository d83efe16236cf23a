use crate::ceph::error::Error;
use crate::rados::{Pool, Watch, Watcher};
use crate::rbd::header::Header;

/// The clients that have an image open.
pub async fn watchers(pool: &Pool, image: &str) -> Result<Vec<Watcher>, Error> {
    let header = Header::named(pool, image).await?;
    pool.watchers(&header.object()).await
}

/// Watches what the users of an image tell each other.
pub async fn watch(pool: &Pool, image: &str) -> Result<Watch, Error> {
    let header = Header::named(pool, image).await?;
    pool.watch(&header.object()).await
}
