//! An image: created, written, read, listed and removed.
//!
//! `cargo run -p onego --example images -- CEPH_CONF`

use onego::ceph::{self, Config, Reactor};
use onego::rbd::{self, CreateOptions, Image};

pub(crate) fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    run(&Config::from_file(path)?)
}

pub(crate) fn run(config: &Config) -> Result<(), ceph::Error> {
    let (mut reactor, cluster) = Reactor::new(config)?;
    reactor.block_on(async {
        let pool = cluster.pool("rbd").await?;
        rbd::create(&pool, "example-image", &CreateOptions::new(64 << 20)).await?;
        let image = Image::open(&pool, "example-image").await?;

        // Spans two objects of 4 MiB, and reads into the caller's buffer.
        image.write((4 << 20) - 100, vec![7; 200]).await?;
        let bytes = image.read_into((4 << 20) - 101, vec![1; 202]).await?;
        assert!(bytes[0] == 0 && bytes[201] == 0 && bytes[1..201].iter().all(|b| *b == 7));
        image.discard(0, 64 << 20).await?;
        assert!(image.read((4 << 20) - 100, 200).await? == [0; 200]);

        let names = rbd::list(&pool).all().await?;
        assert!(names.contains(&"example-image".to_owned()));
        image.close().await?;
        rbd::remove(&pool, "example-image", |_, _| ()).await
    })?
}
