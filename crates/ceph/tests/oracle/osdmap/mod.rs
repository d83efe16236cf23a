//! OSD and monitor maps, compared with `osdmaptool`, `monmaptool` and a monitor.

mod cluster;
pub(crate) mod dump;
pub(crate) mod history;
mod json;
pub(crate) mod monmap;
pub(crate) mod placement;
#[path = "../../it/osdmap/random.rs"]
mod random;

use onego_ceph::osdmap::OsdMap;
use onego_msgr::encoding::{Decode, Encode};
use onego_testkit::Need;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

const OSDMAPTOOL: &[Need] = &[Need::Program("osdmaptool")];

pub(crate) fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> String {
    let output = output(Command::new(program).args(arguments));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} fails: {error}");
    String::from_utf8(output.stdout).unwrap_or_else(|_| panic!("{program} does not print UTF-8"))
}

pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{}", missing(command, &error)))
}

/// Formats the error of a program that cannot be run, with advice.
pub(crate) fn missing(command: &Command, error: &std::io::Error) -> String {
    let program = command.get_program().to_string_lossy();
    format!(
        "{program}: {error}. These tests need Ceph's programs: apt-get install ceph-base ceph-common ceph-mon"
    )
}

/// Reads a map that one of Ceph's programs wrote. It must encode to the same bytes again.
pub(crate) fn load(file: &Path) -> OsdMap {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let map = OsdMap::from_bytes(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(map.to_bytes(), bytes, "{} encodes differently", file.display());
    map
}

pub(crate) fn store(map: &OsdMap, file: &Path) {
    std::fs::write(file, map.to_bytes()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

pub(crate) fn osdmaptool(file: &Path, arguments: &[&str]) -> String {
    let mut all = vec![file.as_os_str()];
    all.extend(arguments.iter().map(OsStr::new));
    run("osdmaptool", &all)
}

pub(crate) fn simple(file: &Path, osds: usize, pg_bits: u32) -> OsdMap {
    let (osds, bits) = (osds.to_string(), pg_bits.to_string());
    osdmaptool(file, &["--createsimple", &osds, "--with-default-pool", "--pg-bits", &bits, "--clobber"]);
    load(file)
}
