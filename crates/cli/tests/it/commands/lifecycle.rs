//! Clusters that commands start: for one command, in the background, and what they leave behind.

use crate::support::{Place, signal};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_command_has_a_cluster_for_itself_and_passes_on_its_code() {
    let place = Place::new();
    let onego = env!("CARGO_BIN_EXE_onego");
    fs::write(
        place.path("script"),
        format!("{onego} rbd create --size 8M disk && {onego} rbd ls && echo $CEPH_CONF$CEPH_ARGS && exit 7"),
    )
    .unwrap();
    let mut command = place.command("cluster run --osds 2 -- sh script");
    let output = command.env("CEPH_ARGS", "--mon-host 192.0.2.1").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{said} {}", String::from_utf8_lossy(&output.stderr));
    // It prints nothing itself.
    let [image, conf] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(image == "disk" && conf.ends_with("/ceph.conf"), "{said}");
    assert!(!std::path::Path::new(conf).parent().unwrap().exists(), "{conf} is left");
    assert_eq!(place.onego_fails("cluster run -- ./none").0, 127);
    assert_eq!(place.onego_fails("cluster run -- ./script").0, 126);
    let (code, said) = place.onego_fails("cluster run");
    assert!(code == 2 && said.contains("COMMAND"), "{said}");
    place.onego("cluster run -- true");
}

#[test]
fn a_signal_ends_the_command_of_a_cluster() {
    let place = Place::new();
    fs::write(place.path("script"), "trap 'exit 9' TERM\necho started\nwhile :; do sleep 0.1; done").unwrap();
    for (line, expected) in [("sh script", 9), ("sleep 60", 143)] {
        let mut command = place.command(&format!("cluster run --conf-dir conf -- {line}"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        if line == "sh script" {
            let mut said = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
            assert_eq!(said, "started\n");
        } else {
            let begun = Instant::now();
            while !place.path("conf/cluster.pid").exists() {
                assert!(begun.elapsed() < Duration::from_secs(30), "it does not start");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        signal(&child, Signal::TERM);
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{line}");
        assert_eq!(fs::read_dir(place.path("conf")).unwrap().count(), 0);
    }
}

#[test]
fn a_detached_cluster_serves_until_it_is_stopped_and_leaves_no_stale_files() {
    let place = Place::new();
    let line = "cluster start --conf-dir conf --auth cephx --detach";
    let said = place.onego(line);
    assert!(said.contains("stop: onego cluster stop --conf-dir /") && said.contains("\nready: "), "{said}");
    place.onego("-c conf/ceph.conf rbd create --size 8M disk");
    // Another one would replace the files of the first.
    for other in [line, "cluster start --conf-dir conf", "cluster run --conf-dir conf -- true"] {
        let (code, said) = place.onego_fails(other);
        assert!(code == 1 && said.contains("another embedded cluster uses it"), "{other}: {code}, {said}");
    }
    assert_eq!(place.onego("-c conf/ceph.conf rbd ls"), "disk\n");
    place.onego("cluster stop --conf-dir conf");
    let left = fs::read_dir(place.path("conf")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "cluster.log").collect();
    assert!(left.is_empty(), "{left:?}");
    for missing in ["conf", "none"] {
        let (code, said) = place.onego_fails(&format!("cluster stop --conf-dir {missing}"));
        assert!(code == 3 && said.contains("no running cluster"), "{code}, {said}");
    }
    // Failures are those of the process in the background, and what it says.
    let (code, said) = place.onego_fails("cluster start --osds 2 --pool-size 3 --detach");
    assert!(code == 2 && said.contains("--pool-size"), "{code}, {said}");
}

#[test]
fn a_kept_cluster_goes_on_with_the_files_that_its_clients_have() {
    let place = Place::new();
    place.onego("cluster start --data data --detach --auth cephx");
    place.onego("-c data/ceph.conf rbd create --size 8M disk");
    place.onego("cluster stop --conf-dir data");
    let conf = fs::read(place.path("data/ceph.conf")).unwrap();
    place.onego("cluster start --data data --detach");
    assert!(fs::read(place.path("data/ceph.conf")).unwrap() == conf, "the address has changed");
    assert_eq!(place.onego("-c data/ceph.conf rbd ls"), "disk\n");
    place.onego("cluster stop --conf-dir data");
}
