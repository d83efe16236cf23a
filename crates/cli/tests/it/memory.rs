//! What the program does with memory that it does not need any more.

use crate::support::Place;
use onego::ceph::{Config, Error, Reactor};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Small objects, and how many are written or removed at a time.
const OBJECTS: u32 = 40_000;
const SIZE: usize = 4096;
const AT_A_TIME: usize = 200;

/// Waits for all of some futures.
async fn all<F: Future<Output = Result<(), Error>>>(futures: impl Iterator<Item = F>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        futures.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Ready(result) => {
                result.unwrap();
                false
            }
            Poll::Pending => true,
        });
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn memory_of_small_objects_that_are_removed_goes_back_to_the_system() {
    let place = Place::with_cluster("--memory 1G");
    let config = Config::from_file(place.path("ceph.conf")).unwrap();
    let (mut reactor, cluster) = Reactor::new(&config).unwrap();
    let names: Vec<String> = (0..OBJECTS).map(|n| format!("object {n}")).collect();
    let pool = reactor.block_on(cluster.pool("rbd")).unwrap().unwrap();
    let before = place.cluster_memory();
    for names in names.chunks(AT_A_TIME) {
        reactor.block_on(all(names.iter().map(|name| pool.write_full(name, vec![7; SIZE])))).unwrap();
    }
    let full = place.cluster_memory();
    let stored = u64::from(OBJECTS) * SIZE as u64;
    assert!(full >= before + stored, "{full} bytes, and {before} before {stored} were written");
    for names in names.chunks(AT_A_TIME) {
        reactor.block_on(all(names.iter().map(|name| pool.remove(name)))).unwrap();
    }
    // What is kept for later: free blocks of receive memory, outcomes of requests, logs of placement groups.
    let end = Instant::now() + Duration::from_secs(10);
    while place.cluster_memory() > before + stored / 2 {
        let left = place.cluster_memory();
        assert!(Instant::now() < end, "{left} of {full} bytes are left, and there were {before}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
