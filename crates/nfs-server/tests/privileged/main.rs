//! Calls with the rights of several users, which takes root. Without, the tests are reported as ignored.

mod alike;
mod callers;
#[allow(dead_code, reason = "tests of the crate use the rest")]
#[path = "../../src/directory/tests/world.rs"]
mod world;

use onego_nfs_server::{Caller, Context, Directory, FileSystem};
use std::process::ExitCode;

fn main() -> ExitCode {
    onego_testkit::run_needy(&[alike::TESTS, callers::TESTS])
}
