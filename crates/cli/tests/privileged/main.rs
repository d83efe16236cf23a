//! Commands that take root or network namespaces. Without, the tests are reported as ignored.

mod nfs_onto_itself;
#[allow(dead_code, reason = "other commands use the rest")]
#[path = "../it/support/mod.rs"]
mod support;
mod zc;

use std::process::ExitCode;

fn main() -> ExitCode {
    onego_testkit::run_needy(&[nfs_onto_itself::TESTS, zc::TESTS, zc::URING])
}
