//! Clients that share an image, and a whole embedded cluster, in one thread of virtual time, with faults by seed.
//!
//! The image has an exclusive lock and an object map. Clients write, clear and read it, each as it likes, so the lock changes
//! hands all the time. Meanwhile connections break, clients are cut off for so long that others take them for dead, and
//! clients die with writes on their way. A model of each block says which bytes a read may give: nothing that was acknowledged
//! is lost, and nothing of a dead owner is applied after its successor has begun. In the end the object map must name every
//! object that there is.
//!
//! [`onego_testkit::seeds`] says how to run more seeds, or one of them again.

mod history;
mod user;
mod world;

use onego_testkit::seeds::Seeds;
use world::SharedWorld;

const SEEDS: Seeds = Seeds { short: 60, long: 1000 };

#[test]
fn an_image_that_changes_hands_loses_nothing_and_keeps_nothing_of_the_dead() {
    let seen = SEEDS.each("-p onego-testkit --release --test images", |seed| {
        let summary = SharedWorld::new(seed).run();
        println!("seed {seed}: {summary:?}");
        summary
    });
    let Some(seen) = seen else { return };
    assert!(seen.iter().map(|summary| summary.hand_overs).sum::<u64>() > 100, "the lock changes hands");
    assert!(seen.iter().map(|summary| summary.deaths).sum::<u64>() > 20, "clients die");
    assert!(seen.iter().map(|summary| summary.shut_out).sum::<u64>() > 0, "clients are shut out");
}
