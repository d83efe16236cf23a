//! A whole client and a whole embedded cluster in one thread of virtual time, with faults by seed.
//!
//! Clients make random requests to objects of their own while connections break, bytes come late and in pieces, OSDs
//! stop, start, go out and in, lose what they have, and the map changes. In half of the worlds the
//! cluster keeps its state on a disk, and crashes: of what was not synced, any part is left. A model, to which each request is applied when it is made, says what
//! must come of it: so nothing may be lost, nothing applied twice, and the order of an object's requests must hold.
//!
//! `ONEGO_SEEDS=1000 cargo test -p onego-testkit --release --test cluster` runs more seeds;
//! `ONEGO_SEED=17 cargo test -p onego-testkit --release --test cluster` runs one again.

mod disk;
mod model;
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
    let usual = if std::env::var_os("ONEGO_TEST_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    for seed in 0..from_environment("ONEGO_SEEDS").unwrap_or(usual) {
        let result = std::panic::catch_unwind(|| World::new(seed, kept).run());
        if result.is_err() {
            panic!(
                "seed {seed} fails; ONEGO_SEED={seed} cargo test -p onego-testkit --release --test cluster \
                 runs it again"
            );
        }
    }
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
    for kept in [false, true] {
        let first = World::new(7, kept).run();
        assert_eq!(first, World::new(7, kept).run());
        assert_ne!(first.trace, World::new(8, kept).run().trace);
    }
}
