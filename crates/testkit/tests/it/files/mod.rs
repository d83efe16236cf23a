//! Whole clients and a whole server of NFS in one thread of virtual time, with faults by seed, over TCP and over RDMA.
//!
//! Clients write, sync, and read with little time, and make, rename, link and remove files of their own, while connections
//! break and bytes arrive late and in pieces. A model, to which each request is applied when it is made, predicts its
//! outcome.
//!
//! - In half of the worlds the server lives: no call is carried out twice that must not be, although it was sent again.
//! - In the other half the server crashes now and then, and gets another verifier. Synced data survives.
//!
//! Everything runs over both file systems with the same code: in memory, where a crash loses uncommitted writes, and in a
//! directory of this machine, whose server keeps nothing but the key of handles (`tests/privileged`). In half of the worlds calls are carried
//! out as jobs, late and in another order than they arrived in; a crash loses jobs and replies.
//!
//! [`onego_testkit::seeds`] says how to run more seeds, or one of them again.

mod server;
pub(crate) mod store;
mod user;
mod volatile;
mod world;

use onego_testkit::seeds::Seeds;
use store::Store;
use user::Operation;
use volatile::Volatile;
use world::{Summary, World};

pub(crate) fn run<S: Store>(crashes: bool) {
    let seeds = Seeds { short: 100, long: 1000 };
    let seen = seeds.each(S::COMMAND, |seed| {
        let summary = World::<S>::new(seed, crashes).run();
        println!("seed {seed}: {summary:?}");
        summary
    });
    let Some(seen) = seen else { return };
    let mut total = Summary::default();
    seen.iter().for_each(|summary| total.add(summary));
    check_coverage::<S>(crashes, &total);
}

/// Worlds in which nothing happened prove nothing.
fn check_coverage<S: Store>(crashes: bool, total: &Summary) {
    assert!(total.resets > 0 && total.cuts > 0, "connections break: {total:?}");
    assert!(total.given_up > 0, "some calls have too little time: {total:?}");
    assert_eq!(crashes, total.crashes > 0, "servers crash where they should: {total:?}");
    assert_eq!(
        crashes && S::LOSES_WRITES,
        total.lost > 0,
        "crashes lose writes where they should: {total:?}"
    );
    let jobs = &total.jobs;
    assert!(jobs.carried_out > 0 && jobs.overtaken > 0, "jobs overtake others: {total:?}");
    assert!(!crashes || jobs.dropped > 0 && jobs.unanswered > 0, "a crash loses jobs and replies: {total:?}");
    // A server that crashes forgets the calls that it has carried out, so its clients change no names.
    let names = Operation::NAMES.iter().filter(|_| !crashes);
    for operation in Operation::DATA.iter().chain(names) {
        assert!(total.succeeded.contains_key(operation), "{operation:?} has never succeeded: {total:?}");
    }
}

pub(crate) fn check_determinism<S: Store>() {
    for (seed, crashes) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        assert_eq!(World::<S>::new(seed, crashes).run(), World::<S>::new(seed, crashes).run());
    }
}

#[test]
fn what_must_not_be_done_twice_is_not() {
    run::<Volatile>(false);
}

#[test]
fn what_is_synced_survives_crashes_of_the_server() {
    run::<Volatile>(true);
}

#[test]
fn a_seed_runs_the_same_way_every_time() {
    check_determinism::<Volatile>();
}
