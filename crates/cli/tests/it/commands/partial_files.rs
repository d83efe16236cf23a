//! Names of unfinished copies: nothing that other programs wrote under them is lost, and neither is a source that has one.

use crate::support::{FileServer, Place, interrupt};
use std::fs;
use std::io::Write as _;
use std::process::{Child, Stdio};

const PARTIAL: &str = ".out.onego-partial";
const RECORD: &str = ".out.onego-source";

/// A directory that is served, so that its files have two names.
struct Served {
    place: Place,
    server: FileServer,
}

impl Served {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("srv")).unwrap();
        let server = FileServer::of_directory(&place, "srv");
        Self { place, server }
    }

    fn url(&self, name: &str) -> String {
        self.server.url(name)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.place.path("srv")).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Begins a copy from standard input that has sent something.
    fn begin(&self, url: &str) -> Child {
        let mut command = self.place.command(&format!("nfs put - {url}"));
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(&vec![7; 8 << 20]).unwrap();
        child
    }
}

#[test]
fn a_source_that_has_the_name_of_an_unfinished_copy_is_not_lost() {
    let served = Served::new();
    let place = &served.place;
    for name in [PARTIAL, RECORD] {
        let (there, here) = (place.path("srv").join(name), place.path(name));
        for file in [&there, &here] {
            fs::write(file, "precious").unwrap();
        }
        for how in ["", "--resume", "--no-clobber"] {
            for line in [
                format!("nfs cp {how} {} {}", served.url(name), served.url("out")),
                format!("nfs put {how} srv/{name} {}", served.url("out")),
                format!("nfs cp {how} {} srv/out", served.url(name)),
            ] {
                let (code, said) = place.onego_fails(&line);
                assert!(code == 2 && said.contains("is the source"), "{line}: {code}, {said}");
                assert_eq!(fs::read(&there).unwrap(), b"precious", "{line}");
                assert_eq!(served.names(), [name], "{line}");
            }
        }
        for how in ["", "--resume", "--replace"] {
            let (code, said) = place.onego_fails(&format!("cp {how} {name} out"));
            assert!(code == 2 && said.contains("is the source"), "{how} {name}: {code}, {said}");
        }
        assert_eq!(fs::read(&here).unwrap(), b"precious");
        fs::remove_file(there).unwrap();
        fs::remove_file(here).unwrap();
    }
}

#[test]
fn files_of_others_that_have_the_name_of_an_unfinished_copy_are_refused() {
    let served = Served::new();
    let place = &served.place;
    fs::write(place.path("file"), "other bytes").unwrap();
    for name in [PARTIAL, RECORD] {
        for at in ["srv", "."] {
            let precious = place.path(at).join(name);
            fs::write(&precious, "precious").unwrap();
            let lines = match at {
                "srv" => ["", "--resume", "--no-clobber"]
                    .map(|how| format!("nfs put {how} file {}", served.url("out"))),
                _ => ["", "--resume", "--replace"].map(|how| format!("cp {how} file out")),
            };
            for line in lines {
                let (code, said) = place.onego_fails(&line);
                assert!(code == 2 && said.contains("remove it"), "{line}: {code}, {said}");
                assert_eq!(fs::read(&precious).unwrap(), b"precious", "{line}");
            }
            fs::remove_file(precious).unwrap();
        }
    }
    // In place, nothing is written next to the file.
    fs::write(place.path("srv").join(PARTIAL), "precious").unwrap();
    place.onego(&format!("nfs put --in-place file {}", served.url("out")));
    assert_eq!(served.names(), [PARTIAL, "out"]);
}

#[test]
fn two_copies_to_one_name_on_a_server_do_not_mix() {
    let served = Served::new();
    let place = &served.place;
    fs::write(place.path("file"), "whole").unwrap();
    let url = served.url("out");
    let mut first = served.begin(&url);
    while !served.names().contains(&PARTIAL.to_owned()) {
        std::thread::yield_now();
    }
    for how in ["", "--resume"] {
        let (code, said) = place.onego_fails(&format!("nfs put {how} file {url}"));
        assert!(code == 2 && said.contains("is being written by"), "{how}: {code}, {said}");
    }
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(fs::metadata(place.path("srv/out")).unwrap().len(), 8 << 20);
    // What a dead process has left is replaced, or continued.
    for ends in [interrupt, |child: &Child| crate::support::signal(child, rustix::process::Signal::KILL)] {
        let mut dead = served.begin(&url);
        while !served.names().contains(&RECORD.to_owned()) {
            std::thread::yield_now();
        }
        ends(&dead);
        dead.wait().unwrap();
        assert_eq!(served.names(), [PARTIAL, RECORD, "out"]);
        place.onego(&format!("nfs put file {url}"));
        assert_eq!(served.names(), ["out"]);
        assert_eq!(fs::read(place.path("srv/out")).unwrap(), b"whole");
    }
}

#[test]
fn names_that_only_a_directory_can_have_are_refused_before_anything_is_copied() {
    let served = Served::new();
    let place = &served.place;
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("x"), "x").unwrap();
    fs::write(place.path("srv/f"), "precious").unwrap();
    let f = served.url("f");
    for to in ["nope/.", "./nope/.", "d/../nope/.", "nope/..", "nope/", "x/", "x/."] {
        for line in [format!("cp x {to} --replace"), format!("nfs cp {f} {to}")] {
            place.onego_fails(&line);
            assert_eq!(fs::read(place.path("x")).unwrap(), b"x", "{line}");
            let left = fs::read_dir(place.path(".")).unwrap().count();
            assert_eq!((left, fs::read_dir(place.path("d")).unwrap().count()), (3, 0), "{line}");
        }
    }
    let output = place.command(&format!("nfs cp {f}")).arg("").output().unwrap();
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("empty"));
    for to in ["new/", "new/.", "new/.."] {
        for how in ["", "--in-place", "--resume"] {
            place.onego_fails(&format!("nfs put {how} x {}", served.url(to)));
            assert_eq!(served.names(), ["f"], "{how} {to}");
        }
    }
    place.onego(&format!("nfs mkdir {}", served.url("dir")));
    place.onego(&format!("nfs put x {}", served.url("dir/.")));
    place.onego(&format!("nfs stat {}", served.url("dir/x")));
}
