//! A client driven by smol, without a thread of the library. (With such a thread, `Cluster::connect` works on any
//! runtime.)
//!
//! `cargo run -p onego --example on_smol -- CEPH_CONF`

use onego::ceph::{self, Config, Reactor};
use smol::{Async, Timer, future};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(crate) fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    run(&Config::from_file(path)?)
}

async fn wait(descriptor: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
    let descriptor = Async::new_nonblocking(descriptor)?;
    let over = async {
        match timeout {
            Some(timeout) => drop(Timer::after(timeout).await),
            None => future::pending().await,
        }
        Ok(())
    };
    future::or(descriptor.readable(), over).await
}

pub(crate) fn run(config: &Config) -> Result<(), ceph::Error> {
    smol::block_on(async {
        let (reactor, cluster) = Reactor::new(config)?;
        let work = async move {
            let pool = cluster.pool("rbd").await?;
            pool.write_full("on-smol", b"hello").await?;
            assert!(pool.read("on-smol", 0, 5).await? == b"hello");
            pool.remove("on-smol").await
            // Dropping the last handle ends the driver.
        };
        let (driven, worked) = future::zip(reactor.drive(wait), work).await;
        driven.and(worked)
    })
}
