//! A copy of a file onto itself, by its name on a server and its name here.

use crate::support::Place;
use onego_testkit::{Need, NeedyTest, needy_tests};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

pub(crate) const TESTS: &[NeedyTest] =
    &needy_tests![&[Need::Root]; a_file_that_is_served_here_is_not_copied_onto_itself];

const HOW: [&str; 3] = ["--in-place", "--resume", ""];

/// A server of a directory, which ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_file_that_is_served_here_is_not_copied_onto_itself() {
    let place = Place::new();
    std::fs::create_dir(place.path("served")).unwrap();
    std::fs::write(place.path("served/f"), "precious").unwrap();
    std::fs::hard_link(place.path("served/f"), place.path("served/g")).unwrap();
    std::os::unix::fs::symlink("served/f", place.path("link")).unwrap();
    let line = "nfs serve served --squash none --insecure --tcp 0 --format json --die-with-parent";
    let mut child = place.command(line).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let _served = Served(child);
    let port = serde_json::from_str::<serde_json::Value>(&said).unwrap()["port"].as_u64().unwrap();
    let url = |name: &str| format!("nfs://127.0.0.1:{port}/export/{name}");
    let pairs = [
        (url("f"), url("g")),
        (url("f"), "served/f".to_owned()),
        (url("f"), "served/g".to_owned()),
        (url("g"), "link".to_owned()),
        ("served/g".to_owned(), url("f")),
        ("link".to_owned(), url("g")),
    ];
    for (from, to) in &pairs {
        for how in HOW {
            let (code, said) = place.onego_fails(&format!("nfs cp {how} {from} {to}"));
            assert!(code == 2 && said.contains("the source itself"), "{how} {from} {to}: {code}, {said}");
            assert_eq!(
                std::fs::read_to_string(place.path("served/f")).unwrap(),
                "precious",
                "{how} {from} {to}"
            );
        }
    }
    assert_eq!(std::fs::read_dir(place.path("served")).unwrap().count(), 2);
}
