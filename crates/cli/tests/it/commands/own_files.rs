//! Files that commands write: they replace what an earlier run wrote, and nothing else.

use crate::support::Place;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn figures_replace_figures_and_nothing_else() {
    let place = Place::new();
    fs::write(place.path("precious"), "precious").unwrap();
    symlink("precious", place.path("link")).unwrap();
    for line in [
        "bench rbd --seconds 0.1 --size 16M --block-size 64k --json precious",
        "bench rbd --seconds 0.1 --size 16M --block-size 64k --json link",
        "bench block --seconds 0.1 --svg precious",
        "bench msgr --svg precious",
        "demo --svg precious",
        "calibrate --output precious",
    ] {
        let (code, said) = place.onego_fails(line);
        assert_eq!(code, 4, "{line}: {said}");
        assert!(said.contains("not the output of an earlier run"), "{line}: {said}");
    }
    assert_eq!(fs::read(place.path("precious")).unwrap(), b"precious");
    let (code, said) = place.onego_fails("bench rbd --json rows --svg ./rows");
    assert!(code == 2 && said.contains("same file"), "{said}");
    fs::write(place.path("rows"), "{}\n").unwrap();
    place.onego(
        "bench rbd --seconds 0.1 --size 16M --block-size 64k --io-depth 4 --json rows --svg /dev/null",
    );
    assert!(fs::read_to_string(place.path("rows")).unwrap().lines().count() > 1);
}

#[test]
fn a_cluster_replaces_no_configuration_of_another() {
    let place = Place::new();
    let foreign = "[global]\nfsid = 07070707-0707-0707-0707-070707070707\nmon_host = 10.0.0.1\n";
    fs::write(place.path("ceph.conf"), foreign).unwrap();
    for options in ["--conf-dir .", "--conf-dir . --data data"] {
        let (code, said) = place.onego_fails(&format!("cluster start {options}"));
        assert_eq!(code, 4, "{said}");
        assert!(said.contains("/ceph.conf: it is not of an embedded cluster"), "{said}");
    }
    assert_eq!(fs::read_to_string(place.path("ceph.conf")).unwrap(), foreign);
    assert!(!place.path("data").exists(), "a cluster was made");
    fs::remove_file(place.path("ceph.conf")).unwrap();
    fs::write(place.path("ceph.client.admin.keyring"), "[client.admin]\n").unwrap();
    let (code, said) = place.onego_fails("cluster start --conf-dir . --auth cephx");
    assert!(code == 4 && said.contains("ceph.client.admin.keyring"), "{said}");
}
