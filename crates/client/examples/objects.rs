//! Objects of a pool: written, read, listed, and changed by several operations at once.
//!
//! `cargo run -p onego --example objects -- CEPH_CONF`

use onego::ErrorKind;
use onego::ceph::{self, Config, Reactor};
use onego::rados::{ReadOp, WriteOp};

pub(crate) fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    run(&Config::from_file(path)?)
}

pub(crate) fn run(config: &Config) -> Result<(), ceph::Error> {
    let (mut reactor, cluster) = Reactor::new(config)?;
    reactor.block_on(async {
        let pool = cluster.pool("rbd").await?;
        pool.write_full("greeting", b"hello").await?;
        assert!(pool.read("greeting", 0, 100).await? == b"hello");

        // All or nothing: creating an existing object fails, and its content stays unchanged.
        let op = WriteOp::new().create(true).write_full(b"other");
        let error = pool.operate_write("greeting", op).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let op = WriteOp::new().append(b", world").set_xattr("language", b"en");
        let version = pool.operate_write("greeting", op).await?;

        // Two reads of a single state of the object.
        let mut op = ReadOp::new();
        let (stat, language) = (op.stat(), op.xattr("language"));
        let reply = pool.operate_read("greeting", op).await?;
        assert_eq!(reply.version(), version);
        assert_eq!(reply.get(&stat)?.size, 12);
        assert!(reply.get(&language)? == b"en");

        let mut objects = pool.objects();
        while let Some(object) = objects.try_next().await? {
            println!("{}", object.name);
        }
        pool.remove("greeting").await
    })?
}
