//! Clients that share images, and a whole embedded cluster, in one thread of virtual time, with faults by seed.
//!
//! The images have an exclusive lock and an object map. Clients write, clear, read and resize them, make snapshots, read
//! them, roll back to them and remove them, and make and flatten clones, each as it likes, so the locks change hands all the
//! time. Meanwhile connections break, clients are cut off for so long that others take them for dead, clients die with
//! all that is on its way or are shut out, OSDs go and come, and a cluster that keeps its state loses its power. A model of each
//! block says which bytes a read may give: nothing that was acknowledged is lost, nothing of a dead owner is applied after its
//! successor has begun, and a snapshot shows the same for ever. In the end nobody holds or watches anything, the object
//! maps name every object that there is, and when all images are removed nothing is left.
//!
//! [`onego_testkit::seeds`] says how to run more seeds, or one of them again.

mod checks;
mod history;
mod maintenance;
mod model;
mod moving;
mod server;
mod tasks;
mod user;
mod world;

use onego_testkit::seeds::Seeds;
use world::{SharedWorld, Summary};

const SEEDS: Seeds = Seeds { short: 24, long: 1000 };

fn run(is_kept: bool) -> Option<Vec<Summary>> {
    SEEDS.each("-p onego-testkit --release --test it images::", |seed| {
        let summary = SharedWorld::new(seed, is_kept).run();
        println!("seed {seed}: {summary:?}");
        summary
    })
}

type Count = fn(&Summary) -> u64;

/// Fails if a world in which nothing happened would have passed, too.
fn check_coverage(seen: &[Summary]) {
    let floors: [(&str, Count, u64); 14] = [
        ("the locks change hands", |summary| summary.hand_overs, 100),
        ("clients die", |summary| summary.deaths, 20),
        ("clients are shut out", |summary| summary.shut_out, 1),
        ("OSDs are away", |summary| summary.outages, 10),
        ("snapshots are made", |summary| summary.snapshots, 30),
        ("snapshots are read", |summary| summary.snapshot_reads, 30),
        ("snapshots are removed", |summary| summary.removals, 10),
        ("images are rolled back", |summary| summary.rollbacks, 5),
        ("images are cloned", |summary| summary.clones, 5),
        ("clones are cloned", |summary| summary.grandchildren, 1),
        ("clones are flattened", |summary| summary.flattened, 2),
        ("images are resized", |summary| summary.resizes, 20),
        ("images are resized while they are written", |summary| summary.open_resizes, 10),
        ("object maps are checked", |summary| summary.checked_maps, 50),
    ];
    for (what, count, floor) in floors {
        let count = seen.iter().map(count).sum::<u64>();
        assert!(count >= floor, "{what}: {count} times");
    }
}

#[test]
fn images_that_change_hands_lose_nothing_and_keep_nothing_of_the_dead() {
    if let Some(seen) = run(false) {
        check_coverage(&seen);
    }
}

#[test]
fn images_of_a_cluster_that_crashes_lose_nothing_either() {
    if let Some(seen) = run(true) {
        check_coverage(&seen);
        assert!(seen.iter().map(|summary| summary.crashes).sum::<u64>() > 20, "the cluster crashes");
    }
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    for (seed, is_kept) in [(0, false), (1, true)] {
        let first = SharedWorld::new(seed, is_kept).run();
        assert_eq!(first, SharedWorld::new(seed, is_kept).run());
    }
}
