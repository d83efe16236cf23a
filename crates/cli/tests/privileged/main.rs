//! Commands that take root and network namespaces. Without, the tests are reported as ignored.

#[allow(dead_code, reason = "other commands use the rest")]
#[path = "../it/support/mod.rs"]
mod support;
mod zc;

use std::process::ExitCode;

fn main() -> ExitCode {
    onego_testkit::run_needy(&[zc::TESTS, zc::URING])
}
