//! Power cuts under the real program: every change and sync of its files is recorded, legal crash states are made of the
//! recording, and each must keep what was promised. Takes strace; without it, the tests are reported as ignored.

mod cluster;
mod copies;
mod disk;
mod private_files;
mod served;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../it/support/mod.rs"]
mod support;
mod trace;

use onego_testkit::seeds::is_long;
use onego_testkit::{Need, NeedyTest, needy_tests};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Names the part that a process of this program plays under strace, and its folder.
const PART: &str = "ONEGO_CRASH_PART";

const TESTS: &[NeedyTest] = &needy_tests![
    &[Need::Program("strace")];
    a_cluster_keeps_what_it_acknowledged,
    a_served_file_keeps_what_was_flushed,
    an_interrupted_copy_of_a_disk_is_resumed,
    an_interrupted_copy_from_nfs_is_resumed,
    an_interrupted_export_of_an_image_is_resumed,
    a_private_file_is_old_or_new,
];

fn a_cluster_keeps_what_it_acknowledged() {
    cluster::run();
}

fn a_served_file_keeps_what_was_flushed() {
    served::run();
}

fn an_interrupted_copy_of_a_disk_is_resumed() {
    copies::of_a_disk();
}

fn an_interrupted_copy_from_nfs_is_resumed() {
    copies::from_nfs();
}

fn an_interrupted_export_of_an_image_is_resumed() {
    copies::of_an_image();
}

fn a_private_file_is_old_or_new() {
    private_files::run();
}

fn main() -> ExitCode {
    if let (Ok(part), Some(folder)) = (std::env::var(PART), std::env::args_os().nth(1)) {
        let folder = Path::new(&folder);
        match part.as_str() {
            "cluster" => cluster::serve(folder),
            "private-files" => private_files::write(folder),
            part => panic!("unknown part {part}"),
        }
        return ExitCode::SUCCESS;
    }
    onego_testkit::run_needy(&[TESTS])
}

/// Seconds since 1970, by the clock that strace uses.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Cuts of a target in the short form and the long one.
fn cuts(short: usize) -> usize {
    if is_long() { 1000 } else { short }
}

/// Most disks that drop half of the syncs, and cuts of each. The end of the recording is one of them.
const CONTROLS: u64 = 40;
const CONTROL_CUTS: usize = 4;

/// Checks `count` crash states of a disk that loses nothing that was synced. They must all be right; and one must be wrong of a
/// disk that drops half of the syncs, or the test sees nothing. `faults` takes a seed, a number of cuts, and whether syncs are
/// dropped.
fn check(name: &str, count: usize, mut faults: impl FnMut(u64, usize, bool) -> Vec<String>) {
    let wrong = faults(1, count, false);
    let first = &wrong[..wrong.len().min(5)];
    assert!(wrong.is_empty(), "{name}: {} of {count} crash states are wrong: {first:#?}", wrong.len());
    let control = (1..=CONTROLS).find(|seed| !faults(*seed, CONTROL_CUTS, true).is_empty());
    println!("{name}: {count} crash states are right");
    assert!(control.is_some(), "{name}: half of the syncs are dropped, and no crash state is wrong");
}
