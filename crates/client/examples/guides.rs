//! The programs in the README and the guides, word for word.
//!
//! `cargo run -p onego --example guides` needs a cluster at `/etc/ceph/ceph.conf` with an image `disk` in the pool
//! `rbd`, and an NFS server called `server` that exports a file `notes/today`.

use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    readme().await?;
    images_and_objects().await?;
    nfs().await?;
    cluster_in_tests()?;
    service_tests().await
}

async fn readme() -> Result<(), Box<dyn Error>> {
    let cluster =
        onego::rados::Cluster::connect(&onego::ceph::Config::from_file("/etc/ceph/ceph.conf")?).await?;
    let disk = onego::rbd::Image::open(&cluster.pool("rbd").await?, "disk").await?;
    disk.write(0, b"hello".to_vec()).await?;
    assert!(disk.read(0, 5).await? == *b"hello");
    Ok(())
}

async fn images_and_objects() -> Result<(), Box<dyn Error>> {
    let cluster =
        onego::rados::Cluster::connect(&onego::ceph::Config::from_file("/etc/ceph/ceph.conf")?).await?;
    let pool = cluster.pool("rbd").await?;
    pool.write_full("greeting", b"hello".to_vec()).await?;
    let disk = onego::rbd::Image::open(&pool, "disk").await?;
    disk.write(0, b"hello".to_vec()).await?;
    assert!(pool.read("greeting", 0, 5).await? == *b"hello");
    Ok(())
}

async fn nfs() -> Result<(), Box<dyn Error>> {
    let (config, path) = onego::nfs::Config::from_url("nfs://server/export")?;
    let mount = onego::nfs::Mount::connect(&config, &path).await?;
    let bytes = mount.open("notes/today").await?.read(0, 4096).await?;
    assert!(!bytes.is_empty());
    Ok(())
}

fn cluster_in_tests() -> Result<(), Box<dyn Error>> {
    let cluster = onego_cluster::Cluster::start(Default::default())?;
    assert!(!onego::ceph::Config::from_text(&cluster.conf())?.monitors.is_empty());
    Ok(())
}

async fn service_tests() -> Result<(), Box<dyn Error>> {
    let ceph = onego_cluster::Cluster::start(onego_cluster::Config::default().with_osds(3))?;
    let service = onego::rados::Cluster::connect(&onego::ceph::Config::from_text(&ceph.conf())?).await?;
    let pool = service.pool("rbd").await?;
    pool.write_full("key", b"value".to_vec()).await?;
    assert!(pool.read("key", 0, 5).await? == *b"value");
    Ok(())
}
