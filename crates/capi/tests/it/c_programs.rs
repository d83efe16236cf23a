//! Programs in C on the library, against a cluster of this process.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shared object, which cargo has built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places = [folder.to_owned(), folder.parent().unwrap().to_owned()];
    let found = places.map(|place| place.join("libonego_capi.so")).into_iter().find(|file| file.exists());
    found.expect("cargo builds the shared object with its tests")
}

/// What a program prints that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

/// A folder with the library under the names by which programs find it.
fn install() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["librados.so.2", "librbd.so.1"] {
        symlink(library(), folder.path().join(name)).unwrap();
    }
    folder
}

/// A file of this crate.
fn own(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Builds one of the programs beside this test, and runs it on a cluster of this process.
fn run(name: &str) {
    let cluster = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let folder = install();
    let (conf, program) = (folder.path().join("ceph.conf"), folder.path().join(name));
    std::fs::write(&conf, cluster.conf()).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg("-I").arg(own("include")).arg(own(&format!("tests/{name}.c"))).arg("-L").arg(folder.path());
    output(cc.args(["-l:librados.so.2", "-l:librbd.so.1", "-lpthread"]));
    let mut running = Command::new("timeout");
    running.arg("120").arg(&program).arg(&conf).arg("ours").env("LD_LIBRARY_PATH", folder.path());
    // What the library says on standard error stands behind it.
    let said = output(&mut running);
    assert!(said.contains("all is well\n"), "{said}");
}

#[test]
fn what_programs_in_c_rely_on_holds() {
    run("traps");
}

#[test]
fn what_programs_in_c_rely_on_of_objects_holds() {
    run("objects");
}

#[test]
fn what_programs_in_c_rely_on_of_images_holds() {
    run("images");
}

#[test]
fn what_programs_in_c_see_of_images_of_format_1_holds() {
    run("old_images");
}

#[test]
fn what_programs_in_c_are_told_of_mirroring_holds() {
    run("mirroring");
}

#[test]
fn what_programs_in_c_rely_on_at_the_edges_holds() {
    run("edges");
}

#[test]
fn the_library_needs_only_libc_and_libgcc() {
    let dynamic = output(Command::new("readelf").arg("--dynamic").arg(library()));
    let needed: BTreeSet<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    let expected = BTreeSet::from(["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1"]);
    assert!(needed.is_subset(&expected), "{needed:?}");
    assert!(dynamic.contains("[librados.so.2]"), "{dynamic}");
    let versions = output(Command::new("readelf").args(["--version-info", "--wide"]).arg(library()));
    assert!(versions.contains("LIBRADOS_14.2.0") && versions.contains("LIBRADOS_PRIVATE"), "{versions}");
}

/// Names in C that a text has: those behind which `end` stands.
fn names(text: &str, end: char) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == end));
    let named = words.filter_map(|word| word.split_once(end).map(|(name, _)| name));
    named.filter(|name| name.starts_with("rados_") || name.starts_with("rbd_")).map(str::to_owned).collect()
}

#[test]
fn the_library_has_what_its_headers_declare() {
    let symbols = output(Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(library()));
    let exported: BTreeSet<String> = symbols
        .lines()
        .filter(|line| line.contains(" FUNC ") && !line.contains(" UND "))
        .filter_map(|line| Some(line.split_whitespace().nth(7)?.split('@').next()?.to_owned()))
        .filter(|name| name.starts_with("rados_") || name.starts_with("rbd_"))
        .collect();
    let mut declared = BTreeSet::new();
    for header in ["include/rados/librados.h", "include/rbd/librbd.h"] {
        declared.extend(names(&std::fs::read_to_string(own(header)).unwrap(), '('));
    }
    assert!(declared.len() > 250, "only {} functions are declared", declared.len());
    let undeclared: Vec<_> = exported.difference(&declared).collect();
    let absent: Vec<_> = declared.difference(&exported).collect();
    assert!(undeclared.is_empty() && absent.is_empty(), "undeclared: {undeclared:?}; absent: {absent:?}");
}
