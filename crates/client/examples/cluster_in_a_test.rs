//! A Ceph cluster inside a test, up in milliseconds and gone with it.
//!
//! `cargo run -p onego --example cluster_in_a_test`

use onego::ceph::{self, Config, Reactor};
use onego_cluster::Cluster;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}

/// The code under test.
async fn count_words(pool: &onego::rados::Pool, object: &str) -> Result<usize, ceph::Error> {
    let text = Vec::from(pool.read(object, 0, 0).await?);
    Ok(String::from_utf8_lossy(&text).split_whitespace().count())
}

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::start(Default::default())?;
    let config = Config::from_text(&cluster.conf())?;
    let (mut reactor, client) = Reactor::new(&config)?;
    reactor.block_on(async {
        let pool = client.pool("rbd").await?;
        pool.write_full("text", b"a cluster in a test").await?;
        assert_eq!(count_words(&pool, "text").await?, 5);
        Ok::<_, ceph::Error>(())
    })??;
    Ok(())
}
