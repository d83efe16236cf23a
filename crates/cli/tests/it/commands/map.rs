//! `onego map` and its kin, up to the kernel. What comes behind that takes a kernel with the driver: the scenarios `ublk-guest` and `nbd-guest`.

use crate::support::Place;
use std::path::Path;

#[test]
fn without_a_driver_the_words_say_how_to_get_it() {
    let place = Place::new();
    // A device that no kernel takes: where there is a driver, that is what is said.
    for (kind, driver, without, with) in [
        ("ublk", "/dev/ublk-control", "modprobe ublk_drv", "positive multiple"),
        ("nbd", "/sys/module/nbd", "modprobe nbd", "positive multiple"),
    ] {
        let (expected, words) = if Path::new(driver).exists() { (5, with) } else { (1, without) };
        for line in [format!("map null:1 --type {kind} --foreground"), format!("map null:1 --type {kind}")] {
            let (code, said) = place.onego_fails(&line);
            assert_eq!(code, expected, "{line}: {said}");
            assert!(said.contains(words), "{line}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_mapped_is_refused_with_its_code() {
    let place = Place::new();
    std::fs::write(place.path("rbdmap"), "\nrbd/disk colour=red\n").unwrap();
    for (line, code, words) in [
        ("map", 2, "SOURCE"),
        ("map iscsi:disk", 2, "unknown kind"),
        ("map mem:1M --queues 2", 2, "one thread"),
        ("map mem:1M --queues 0", 2, "--queues"),
        ("map mem:1M --depth 5000", 2, "--depth"),
        ("map mem:1M --type nbd --queues 2", 2, "one thread"),
        ("map null:1M --type nbd --queues 2 --foreground", 2, "one queue"),
        ("map null:1M --type loop", 2, "loop"),
        ("map nbds://127.0.0.1/disk", 2, "tls-certificates=FOLDER"),
        ("map nbd://127.0.0.1/disk?tls-certificates=folder", 2, "nbds://"),
        ("map null:1G --all", 2, "--all"),
        ("map --all --rbdmap rbdmap", 2, "rbdmap: line 2: \"colour\""),
        ("map --all --rbdmap nosuch", 1, "nosuch"),
        ("unmap", 2, "DEVICE|SOURCE"),
        ("unmap /dev/ublkb4095", 3, "onego showmapped"),
        ("unmap /dev/nbd4095", 3, "onego showmapped"),
        ("unmap rbd:nosuch/disk", 3, "onego showmapped"),
    ] {
        let (got, said) = place.onego_fails(line);
        assert_eq!(got, code, "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    }
}

#[test]
fn an_empty_list_maps_nothing() {
    let place = Place::new();
    std::fs::write(place.path("rbdmap"), "# RbdDevice  Parameters\n").unwrap();
    assert_eq!(place.onego("map --all --rbdmap rbdmap"), "");
}
