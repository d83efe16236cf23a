//! Tests that change the limits of their process, or measure its allocations. They run one after the other in their own
//! process.

#[path = "../it/engines.rs"]
#[macro_use]
mod engines;
mod descriptors;
mod many;

use std::process::ExitCode;

fn main() -> ExitCode {
    if many::serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    onego_testkit::run_needy_in_turn(&[descriptors::ON_EACH_ENGINE, many::ON_EACH_ENGINE])
}
