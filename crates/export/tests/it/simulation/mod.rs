//! Exports by seed, against a model of the disk.

mod disk;
mod nbd;
mod storage;
mod tally;
mod ublk;
mod vhost_user;

use nbd::{SeenByClients, SimulatedExport};
use onego_testkit::seeds::Seeds;
use ublk::{SeenByKernel, SimulatedQueues};
use vhost_user::{SeenByGuests, SimulatedDisk};

const SEEDS: Seeds = Seeds { short: 200, long: 10_000 };
const TEST: &str = "-p onego-export --test it simulation::";

/// A run in which nothing happens proves nothing: what was seen how often, and how often each run has to see it.
fn check_floors(runs: usize, floors: &[(&str, u64, u64)]) {
    let count = runs as u64;
    for (what, seen, each) in floors {
        assert!(*seen >= each * count, "{what} {seen} times in {count} runs");
    }
}

#[test]
fn a_disk_keeps_what_it_has_acknowledged_whatever_happens_to_its_clients_and_its_device() {
    let Some(runs) = SEEDS.each(TEST, |seed| SimulatedExport::new(seed).run()) else { return };
    let all = runs.iter().fold(SeenByClients::default(), |all, seen| all + *seen);
    println!("{all:?}");
    check_floors(
        runs.len(),
        &[
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
        ],
    );
}

#[test]
fn a_guest_finds_on_its_disk_what_it_has_written_whatever_happens_to_its_server() {
    let Some(runs) = SEEDS.each(TEST, |seed| SimulatedDisk::new(seed).run()) else { return };
    let all = runs.iter().fold(SeenByGuests::default(), |all, seen| all + *seen);
    println!("{all:?}");
    check_floors(
        runs.len(),
        &[
            ("requests were carried out", all.done, 100),
            ("changes were flushed", all.flushes, 10),
            ("changes were durable at once", all.durable, 5),
            ("requests failed because the device did", all.failed, 5),
            ("requests were not announced, because the server knew", all.unannounced, 1),
            ("connections were cut with requests in flight", all.cut, 2),
            ("servers were killed with requests in flight", all.killed, 2),
            ("requests were begun again", all.resubmitted, 5),
            ("queues were stopped", all.stopped, 3),
            ("guests were replaced", all.replaced, 1),
            ("guests lied", all.lies, 5),
            ("queues of liars were stopped", all.broken, 2),
            ("liars were given up", all.given_up, 0),
            ("there were crashes", all.crashes, 1),
            ("acknowledged changes were lost that were not flushed", all.lost, 3),
            ("changes were kept that were not flushed", all.kept, 30),
        ],
    );
}

#[test]
fn a_block_device_of_the_kernel_keeps_its_bytes_whatever_happens_to_its_daemon() {
    let Some(runs) = SEEDS.each(TEST, |seed| SimulatedQueues::new(seed).run()) else { return };
    let all = runs.iter().fold(SeenByKernel::default(), |all, seen| all + *seen);
    println!("{all:?}");
    check_floors(
        runs.len(),
        &[
            ("requests were carried out", all.done, 100),
            ("changes were flushed", all.flushes, 10),
            ("writes were forced", all.forced, 4),
            ("requests failed because the device did", all.failed, 5),
            ("daemons were killed with requests in flight", all.killed, 3),
            ("requests came while there was no daemon", all.alone, 5),
            ("there were crashes", all.crashes, 1),
            ("acknowledged changes were lost that were not flushed", all.lost, 3),
            ("changes were kept that were not flushed", all.kept, 30),
        ],
    );
}
