//! A client driven by tokio, without a thread of the library. (With such a thread, `Cluster::connect` works on any
//! runtime.)
//!
//! `cargo run -p onego --example on_tokio -- CEPH_CONF`

use onego::ceph::{self, Config, Reactor};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub(crate) fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    run(&Config::from_file(path)?)
}

#[expect(deprecated, reason = "sound for a borrowed descriptor, while the replacement is unsafe")]
async fn wait(descriptor: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
    let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    match timeout {
        Some(timeout) => drop(tokio::time::timeout(timeout, descriptor.readable()).await),
        None => drop(descriptor.readable().await?),
    }
    Ok(())
}

pub(crate) fn run(config: &Config) -> Result<(), ceph::Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let (reactor, cluster) = Reactor::new(config)?;
        let work = async move {
            let pool = cluster.pool("rbd").await?;
            pool.write_full("on-tokio", b"hello").await?;
            // Many concurrent requests.
            let reads: Vec<_> = (0..64).map(|_| pool.read("on-tokio", 0, 5)).collect();
            for read in reads {
                assert!(read.await? == b"hello");
            }
            pool.remove("on-tokio").await
            // Dropping the last handle ends the driver.
        };
        let (driven, worked) = tokio::join!(reactor.drive(wait), work);
        driven.and(worked)
    })
}
