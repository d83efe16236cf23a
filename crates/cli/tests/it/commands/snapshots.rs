//! Snapshots as sources of copies and exports: they are read only.

use crate::support::Place;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

#[test]
fn a_snapshot_is_copied_and_exported_and_not_written_to() {
    let place = Place::with_cluster("--osds 1");
    fs::write(place.path("monday"), vec![1; 1 << 20]).unwrap();
    fs::write(place.path("tuesday"), vec![2; 1 << 20]).unwrap();
    place.onego("cp monday rbd:disk");
    place.onego("rbd snap create disk@monday");
    place.onego("cp tuesday rbd:disk --in-place");
    let is = |name: &str, day: &str| {
        assert!(
            fs::read(place.path(name)).unwrap() == fs::read(place.path(day)).unwrap(),
            "{name} is no {day}"
        );
    };
    place.onego("cp rbd:disk@monday copy");
    place.onego("cp rbd:disk head");
    is("copy", "monday");
    is("head", "tuesday");
    let line = "export nbd rbd:disk@monday rbd:disk --socket s --die-with-parent";
    let mut export = place.command(line).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(export.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.into_iter().any(|line| line.starts_with("ready: ")), "it does not start");
    place.onego("cp nbd+unix:///rbd/disk@monday?socket=s exported");
    is("exported", "monday");
    let (code, said) = place.onego_fails("cp tuesday nbd+unix:///rbd/disk@monday?socket=s");
    assert!(code != 0 && said.contains("read-only"), "{code}, {said}");
    export.kill().unwrap();
    export.wait().unwrap();
    for line in ["cp tuesday rbd:disk@monday --in-place", "cp tuesday rbd:disk@new"] {
        let (code, said) = place.onego_fails(line);
        assert!(
            code == 2 && said.contains("is a snapshot, which cannot be written to"),
            "{line}: {code}, {said}"
        );
    }
    let (code, said) = place.onego_fails("cp rbd:disk@none copy2");
    assert!(code == 3 && said.contains("none"), "{code}, {said}");
    // A snapshot is another device than its image.
    place.onego("cp rbd:disk@monday rbd:disk --in-place");
    place.onego("cp rbd:disk back");
    is("back", "monday");
}
