//! Servers over an io_uring. Without one, the tests are reported as ignored.

#[path = "../it/giving_way.rs"]
mod giving_way;

use onego_engine::EngineKind;
use onego_testkit::{Need, NeedyTest, needy_tests};
use std::process::ExitCode;

fn a_connection_that_gives_way_is_closed_and_the_other_is_served() {
    giving_way::the_connection_that_gives_way_to_another_is_closed_and_the_other_is_served(EngineKind::Uring);
}

const TESTS: &[NeedyTest] =
    &needy_tests![&[Need::Uring]; a_connection_that_gives_way_is_closed_and_the_other_is_served];

fn main() -> ExitCode {
    onego_testkit::run_needy(&[TESTS])
}
