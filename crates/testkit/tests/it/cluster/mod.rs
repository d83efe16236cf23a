//! A whole client and a whole embedded cluster in one thread of virtual time, with faults by seed.
//!
//! Clients make random requests to objects of their own while connections break, bytes come late and in pieces, OSDs
//! stop, start, go out and in, lose what they have, and the map changes. They speak either version of the messenger's
//! protocol, with keys, of which the tickets run out all the time, or without, and encrypted or not. In half of the worlds the
//! cluster keeps its state on a disk, and crashes: of what was not synced, any part is left. A model, to which each request is applied when it is made, says what
//! must come of it: so nothing may be lost, nothing applied twice, and the order of an object's requests must hold.
//!
//! [`onego_testkit::seeds`] says how to run more seeds, or one of them again.

mod crowd;
pub(crate) mod disk;
mod errors;
mod kept;
mod model;
mod tickets;
mod user;
mod wire;
mod world;

use onego_testkit::seeds::Seeds;
use world::World;

const SEEDS: Seeds = Seeds { short: 80, long: 1000 };

fn run(kept: bool) {
    let seen = SEEDS.each("-p onego-testkit --release --test it cluster::", |seed| {
        let summary = World::new(seed, kept).run();
        println!("seed {seed}: {summary}");
        summary
    });
    let Some(seen) = seen else { return };
    let rotations: u64 = seen.iter().map(|summary| summary.rotations).sum();
    let refused_tickets: u64 = seen.iter().map(|summary| summary.refused_tickets).sum();
    let crashes: u32 = seen.iter().map(|summary| summary.crashes).sum();
    assert!(rotations > 0 && refused_tickets > 0, "tickets run out: {rotations}, {refused_tickets}");
    assert_eq!(crashes > 0, kept, "a cluster on a disk crashes");
}

#[test]
fn nothing_is_lost_applied_twice_or_out_of_order() {
    run(false);
}

#[test]
fn what_is_acknowledged_survives_crashes_and_nothing_is_half_done() {
    run(true);
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    // Both versions of the messenger are among them, with keys and without, and encrypted.
    for (seed, kept) in (0..5).flat_map(|seed| [(seed, false), (seed, true)]) {
        let first = World::new(seed, kept).run();
        assert_eq!(first, World::new(seed, kept).run());
        assert_ne!(first.trace, World::new(seed + 1, kept).run().trace);
    }
}
