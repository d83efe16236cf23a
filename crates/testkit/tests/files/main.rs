//! Whole clients and a whole server of NFS in one thread of virtual time, with faults by seed, over TCP and over RDMA.
//!
//! Clients write, sync, read for as long as they have time, make, rename, link and remove files of their own while connections break and bytes come late and
//! in pieces. A model, to which each request is applied when it is made, says what must come of it.
//!
//! - In half of the worlds the server lives: what must not be done twice is not, whatever was sent again.
//! - In the other half it crashes now and then, and loses what was not committed; its verifier is another then. What was
//!   synced is there all the same.
//!
//! `ONEGO_SEEDS=1000 cargo test -p onego-testkit --release --test files` runs more seeds;
//! `ONEGO_SEED=17 cargo test -p onego-testkit --release --test files` runs one again.

mod user;
mod volatile;
mod world;

use world::World;

/// Seeds run when nobody says how many.
const SEEDS: u64 = 100;
const SEEDS_LONG: u64 = 1000;

fn from_environment(name: &str) -> Option<u64> {
    let parse = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number"));
    std::env::var(name).ok().map(parse)
}

/// Runs the worlds of as many seeds as there are to be, or of the one that is asked for.
fn run(crashes: bool) {
    if let Some(seed) = from_environment("ONEGO_SEED") {
        println!("{:?}", World::new(seed, crashes).run());
        return;
    }
    let usual = if std::env::var_os("ONEGO_TEST_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    let (mut crashed, mut lost, mut given_up) = (0, 0, 0);
    for seed in 0..from_environment("ONEGO_SEEDS").unwrap_or(usual) {
        let result = std::panic::catch_unwind(|| World::new(seed, crashes).run());
        let Ok(summary) = result else {
            panic!(
                "seed {seed} fails; ONEGO_SEED={seed} cargo test -p onego-testkit --release --test files \
                 runs it again"
            );
        };
        crashed += summary.crashes;
        lost += summary.lost;
        given_up += summary.given_up;
    }
    assert!(!crashes || (crashed > 0 && lost > 0), "a server that crashes loses something");
    assert!(given_up > 0, "some calls have too little time");
}

#[test]
fn what_must_not_be_done_twice_is_not() {
    run(false);
}

#[test]
fn what_is_synced_survives_crashes_of_the_server() {
    run(true);
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    for (seed, crashes) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        assert_eq!(World::new(seed, crashes).run(), World::new(seed, crashes).run());
    }
}
