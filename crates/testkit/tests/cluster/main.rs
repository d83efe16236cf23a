//! A whole client and a whole embedded cluster in one thread of virtual time, with faults by seed.
//!
//! Clients make random requests to objects of their own while connections break, bytes come late and in pieces, OSDs
//! stop, start, go out and in, lose what they have, and the map changes. They speak either version of the messenger's
//! protocol, with keys, of which the tickets run out all the time, or without, and encrypted or not. In half of the worlds the
//! cluster keeps its state on a disk, and crashes: of what was not synced, any part is left. A model, to which each request is applied when it is made, says what
//! must come of it: so nothing may be lost, nothing applied twice, and the order of an object's requests must hold.
//!
//! `ONEGO_SEEDS=1000 cargo test -p onego-testkit --release --test cluster` runs more seeds;
//! `ONEGO_SEED=17 cargo test -p onego-testkit --release --test cluster` runs one again.

mod crowd;
mod disk;
mod errors;
mod kept;
mod model;
mod tickets;
mod user;
mod wire;
mod world;

use world::World;

/// Seeds run when nobody says how many.
const SEEDS: u64 = 200;
const SEEDS_LONG: u64 = 1000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}

/// Runs the worlds of as many seeds as there are to be, or of the one that is asked for.
fn run(kept: bool) {
    if let Some(seed) = from_environment("ONEGO_SEED") {
        println!("{}", World::new(seed, kept).run());
        return;
    }
    let (mut rotations, mut refused_tickets) = (0, 0);
    let usual = if std::env::var_os("ONEGO_TEST_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    let seeds = from_environment("ONEGO_SEEDS").unwrap_or(usual);
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(|| World::new(seed, kept).run());
        let Ok(summary) = result else {
            panic!(
                "seed {seed} fails; ONEGO_SEED={seed} cargo test -p onego-testkit --release --test cluster \
                 runs it again"
            );
        };
        rotations += summary.rotations;
        refused_tickets += summary.refused_tickets;
    }
    println!("keys changed {rotations} times, and {refused_tickets} tickets were refused");
    assert!(seeds < SEEDS || (rotations > 0 && refused_tickets > 0), "tickets run out");
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
