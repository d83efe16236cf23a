//! Simulations that take root: handles of files are opened. Without, the tests are reported as ignored.

mod exported;
#[allow(dead_code, unused_imports, reason = "simulations in memory use the rest")]
#[path = "../it/files/mod.rs"]
mod files;

use exported::Exported;
use onego_testkit::{Need, NeedyTest, needy_tests};
use std::process::ExitCode;

fn what_must_not_be_done_twice_in_a_directory_is_not() {
    files::run::<Exported>(false);
}

fn what_is_written_to_a_directory_survives_crashes_of_the_server() {
    files::run::<Exported>(true);
}

fn a_seed_runs_the_same_way_every_time_in_a_directory() {
    files::check_determinism::<Exported>();
}

const TESTS: &[NeedyTest] = &needy_tests![
    &[Need::Root];
    what_must_not_be_done_twice_in_a_directory_is_not,
    what_is_written_to_a_directory_survives_crashes_of_the_server,
    a_seed_runs_the_same_way_every_time_in_a_directory,
];

fn main() -> ExitCode {
    onego_testkit::run_needy(&[TESTS])
}
