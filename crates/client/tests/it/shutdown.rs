//! Shutdown of a client with watches: the cluster learns of it, and the caller does not wait for dead OSDs.

use onego::ceph::{Config, Error};
use onego::rados::{Cluster, Watch};
use onego::rbd::{self, CreateOptions, Image};
use std::time::{Duration, Instant};

fn with_server(
    body: impl AsyncFnOnce(onego_cluster::Cluster, &Config) -> Result<(), Error>,
) -> Result<(), Error> {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = Config::from_text(&server.conf()).unwrap();
    smol::block_on(body(server, &config))
}

async fn watching(config: &Config) -> Result<(Cluster, Watch), Error> {
    let cluster = Cluster::connect(config).await?;
    let pool = cluster.pool("rbd").await?;
    pool.write_full("object", b"hello".to_vec()).await?;
    let watch = pool.watch("object").await?;
    Ok((cluster, watch))
}

#[test]
fn a_client_releases_its_watches_before_close_returns() -> Result<(), Error> {
    with_server(async |_server, config| {
        let (cluster, watch) = watching(config).await?;
        let pool = cluster.pool("rbd").await?;
        rbd::create(&pool, "disk", &CreateOptions::new(1 << 20)).await?;
        let image = Image::open(&pool, "disk").await?;
        image.write(0, vec![1; 100]).await?;
        cluster.close().await;
        assert!(matches!(pool.stat("object").await, Err(Error::Closed)));
        drop((watch, image));
        let other = Cluster::connect(config).await?.pool("rbd").await?;
        assert!(other.watchers("object").await?.is_empty());
        let header = rbd::info(&other, "disk").await?.header_object();
        assert!(other.watchers(&header).await?.is_empty());
        Ok(())
    })
}

#[test]
fn a_dropped_client_releases_its_watches_in_the_background() -> Result<(), Error> {
    with_server(async |_server, config| {
        let (cluster, watch) = watching(config).await?;
        drop((cluster, watch));
        let other = Cluster::connect(config).await?.pool("rbd").await?;
        let began = Instant::now();
        while !other.watchers("object").await?.is_empty() {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "the watch must not wait for its timeout of 30 s"
            );
        }
        Ok(())
    })
}

#[test]
fn neither_drop_nor_close_waits_for_dead_osds() -> Result<(), Error> {
    with_server(async |server, config| {
        let (dropped, closed) = (watching(config).await?, watching(config).await?);
        drop(server);
        let began = Instant::now();
        drop(dropped);
        closed.0.close().await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(500), "the end of the clients took {took:?}");
        Ok(())
    })
}
