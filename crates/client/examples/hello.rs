//! Writes an object and an image, and reads them back: `hello CEPH_CONF`.

use onego::ceph::{self, Config, Reactor};
use onego::rbd;

fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    let (mut reactor, cluster) = Reactor::new(&Config::from_file(path)?)?;
    reactor.block_on(async {
        cluster.ready().await?;
        println!("pools: {:?}", cluster.pools().await?);
        let pool = cluster.pool("rbd").await?;
        pool.write_full("greeting", b"hello".to_vec()).await?;
        println!("object: {:?}", String::from_utf8_lossy(&pool.read("greeting", 0, 100).await?.to_vec()));
        pool.remove("greeting").await?;

        rbd::create(&pool, "hello", &rbd::CreateOptions::new(64 << 20)).await?;
        let image = rbd::Image::open(&pool, "hello").await?;
        image.write((4 << 20) - 100, vec![7; 200]).await?;
        let bytes = image.read_into((4 << 20) - 101, vec![1; 202]).await?;
        assert!(bytes[0] == 0 && bytes[201] == 0 && bytes[1..201].iter().all(|b| *b == 7));
        println!("images: {:?}", rbd::list(&pool).await?);
        image.close().await?;
        rbd::remove(&pool, "hello", |_, _| ()).await
    })?
}
