//! Whole clients and a whole server of NFS in one thread of virtual time, with faults by seed, over TCP and over RDMA.
//!
//! Clients write, sync, read for as long as they have time, make, rename, link and remove files of their own while connections break and bytes come late and
//! in pieces. A model, to which each request is applied when it is made, says what must come of it.
//!
//! - In half of the worlds the server lives: what must not be done twice is not, whatever was sent again.
//! - In the other half it crashes now and then; its verifier is another then. What was synced is there all the same.
//!
//! Both are run over the file system in memory, which loses what was not committed when its server crashes, and over a
//! directory of this machine. Calls to that are carried out late and in another order than they came in. Its server loses
//! calls that wait, replies, and all that it knows but the key of handles.
//!
//! `ONEGO_SEEDS=1000 cargo test -p onego-testkit --release --test files` runs more seeds;
//! `ONEGO_SEED=17 cargo test -p onego-testkit --release --test files` runs one again.

mod exported;
mod server;
mod store;
mod user;
mod volatile;
mod world;

use store::Kind;
use world::{Summary, World};

/// Seeds run when nobody says how many.
const SEEDS: u64 = 100;
const SEEDS_LONG: u64 = 1000;

fn from_environment(name: &str) -> Option<u64> {
    let parse = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number"));
    std::env::var(name).ok().map(parse)
}

/// Runs the worlds of as many seeds as there are to be, or of the one that is asked for.
fn run(kind: Kind, crashes: bool) {
    if let Some(seed) = from_environment("ONEGO_SEED") {
        println!("{:?}", World::new(kind, seed, crashes).run());
        return;
    }
    let usual = if std::env::var_os("ONEGO_TEST_LONG").is_some() { SEEDS_LONG } else { SEEDS };
    let mut total = Summary::default();
    for seed in 0..from_environment("ONEGO_SEEDS").unwrap_or(usual) {
        let result = std::panic::catch_unwind(|| World::new(kind, seed, crashes).run());
        let Ok(summary) = result else {
            panic!(
                "seed {seed} fails; ONEGO_SEED={seed} cargo test -p onego-testkit --release --test files \
                 runs it again"
            );
        };
        total.add(&summary);
    }
    check_coverage(kind, crashes, &total);
}

/// Worlds in which nothing happened prove nothing.
fn check_coverage(kind: Kind, crashes: bool, total: &Summary) {
    assert!(total.resets > 0 && total.cuts > 0, "connections break: {total:?}");
    assert!(total.given_up > 0, "some calls have too little time: {total:?}");
    assert_eq!(crashes, total.crashes > 0, "servers crash where they should: {total:?}");
    match kind {
        Kind::Memory => assert!(!crashes || total.lost > 0, "a crash loses writes: {total:?}"),
        Kind::Directory => {
            let calls = &total.calls;
            assert!(calls.carried_out > 0 && calls.overtaken > 0, "calls overtake others: {total:?}");
            let has_lost = calls.dropped > 0 && calls.unanswered > 0;
            assert!(!crashes || has_lost, "a crash loses calls and replies: {total:?}");
        }
    }
}

#[test]
fn what_must_not_be_done_twice_is_not() {
    run(Kind::Memory, false);
}

#[test]
fn what_must_not_be_done_twice_in_a_directory_is_not() {
    run(Kind::Directory, false);
}

#[test]
fn what_is_synced_survives_crashes_of_the_server() {
    run(Kind::Memory, true);
}

#[test]
fn what_is_written_to_a_directory_survives_crashes_of_the_server() {
    run(Kind::Directory, true);
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    for kind in [Kind::Memory, Kind::Directory] {
        for (seed, crashes) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
            assert_eq!(World::new(kind, seed, crashes).run(), World::new(kind, seed, crashes).run());
        }
    }
}
