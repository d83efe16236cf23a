//! Integration tests of `onego-engine`. Those that need an io_uring, or root, are reported as ignored without.

#[macro_use]
mod engines;
mod adversity;
mod credentials;
mod descriptors_along;
mod given;
mod loopback;
mod low_water;
mod watch;
mod zero_copy;

use onego_testkit::Need;
use std::process::ExitCode;

const URING: &[Need] = &[Need::Uring];

fn main() -> ExitCode {
    onego_testkit::run_needy(&[
        adversity::ON_EACH_ENGINE,
        credentials::ROOT,
        credentials::TESTS,
        descriptors_along::TESTS,
        descriptors_along::URING,
        given::ON_EACH_ENGINE,
        loopback::ON_EACH_ENGINE,
        low_water::ON_EACH_ENGINE,
        low_water::TESTS,
        watch::ON_EACH_ENGINE,
        zero_copy::TESTS,
        zero_copy::URING,
        zero_copy::VETH,
        zero_copy::VETH_URING,
    ])
}
