//! A server of NBD by seed, against a model of the disk: clients that are cut off, that are slow and that lie, a device that
//! fails, delays and forgets, and crashes.

mod disk;
#[path = "../support/mod.rs"]
mod support;
mod world;

use onego_testkit::seeds::Seeds;
use world::{Seen, SimulatedExport};

const SEEDS: Seeds = Seeds { short: 200, long: 10_000 };

#[test]
fn a_disk_keeps_what_it_has_acknowledged_whatever_happens_to_its_clients_and_its_device() {
    let runs = SEEDS.each("-p onego-export --test simulation", |seed| SimulatedExport::new(seed).run());
    let Some(runs) = runs else { return };
    let all = runs.iter().fold(Seen::default(), |all, seen| all + *seen);
    println!("{all:?}");
    let count = runs.len() as u64;
    // A run in which nothing happens proves nothing.
    for (what, seen, each) in [
        ("requests were carried out", all.done, 100),
        ("changes were flushed", all.flushes, 10),
        ("changes were forced", all.forced, 4),
        ("requests failed because the device did", all.failed, 5),
        ("clients were cut off with requests in flight", all.cut, 2),
        ("messages were sent in pieces", all.pieces, 20),
        ("clients stopped to read", all.stopped, 3),
        ("clients lied", all.lies, 5),
        ("liars were given up", all.given_up, 1),
        ("there were crashes", all.crashes, 1),
        ("acknowledged changes were lost that were not flushed", all.lost, 3),
        ("changes were kept that were not flushed", all.kept, 30),
    ] {
        assert!(seen >= each * count, "{what} {seen} times in {count} runs");
    }
}
