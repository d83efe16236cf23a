//! Maps and placement, compared with Ceph's programs. Tests whose programs are not in PATH are reported as ignored.
//!
//! Debian packages the programs in `ceph-base`, `ceph-common`, `ceph-mon` and `ceph-osd`.

mod crush;
mod osdmap;

use std::process::ExitCode;

fn main() -> ExitCode {
    onego_testkit::run_needy(&[
        crush::map::TESTS,
        crush::placement::TESTS,
        osdmap::dump::TESTS,
        osdmap::history::TESTS,
        osdmap::monmap::TESTS,
        osdmap::placement::TESTS,
    ])
}
