//! The polled reactor: one thread, tagged requests, and no futures in flight.
//!
//! `cargo run -p onego --example polled -- CEPH_CONF`

use onego::ceph::{self, Config, ImageRequest, Outcome, Reactor};
use onego::rbd::{self, CreateOptions, Image};
use onego::{SegmentMut, Wait};

/// Number of requests, requests in flight, and bytes per request.
const REQUESTS: u64 = 1000;
const DEPTH: u64 = 32;
const BLOCK: usize = 4096;

pub(crate) fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    run(&Config::from_file(path)?)
}

pub(crate) fn run(config: &Config) -> Result<(), ceph::Error> {
    let (mut reactor, cluster) = Reactor::new(config)?;
    let (pool, image) = reactor.block_on(async {
        let pool = cluster.pool("rbd").await?;
        rbd::create(&pool, "example-polled", &CreateOptions::new(64 << 20)).await?;
        let image = Image::open(&pool, "example-polled").await?;
        Ok::<_, ceph::Error>((pool, image))
    })??;

    let (mut submitted, mut completed) = (0, 0);
    while completed < REQUESTS {
        while submitted < REQUESTS && submitted - completed < DEPTH && reactor.has_room() {
            let buffer = SegmentMut::zeroed(BLOCK);
            let offset = submitted * BLOCK as u64;
            reactor.submit(&image, ImageRequest::Read { offset, buffer }, submitted)?;
            submitted += 1;
        }
        reactor.turn(Wait::Forever)?;
        while let Some(done) = reactor.completion() {
            let Outcome::Buffer(buffer) = done.result? else { continue };
            assert_eq!(buffer.len(), BLOCK);
            completed += 1;
        }
    }
    println!("{} system calls for {REQUESTS} reads", reactor.stats().system_calls);
    reactor.block_on(async {
        image.close().await?;
        rbd::remove(&pool, "example-polled", |_, _| ()).await
    })?
}
