//! The life of images on an embedded cluster.

use crate::support::{Place, allocated};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Bytes of the file that is imported: the last object and the last block are not whole.
const SIZE: u64 = (9 << 20) + 5000;

/// Bytes that no two places share.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let step = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(step).take(length).collect()
}

/// A file with data, holes, and zeros that are written.
fn disk(place: &Place) -> Vec<u8> {
    let file = File::create_new(place.path("disk.raw")).unwrap();
    file.set_len(SIZE).unwrap();
    file.write_all_at(&bytes(1, 100_000), 0).unwrap();
    file.write_all_at(&bytes(2, 3_000_000), (1 << 20) + 77).unwrap();
    file.write_all_at(&vec![0; 1 << 20], 5 << 20).unwrap();
    file.write_all_at(&bytes(3, 4000), SIZE - 4000).unwrap();
    fs::read(place.path("disk.raw")).unwrap()
}

#[test]
fn what_is_imported_is_exported_again() {
    let place = Place::with_cluster("");
    let content = disk(&place);
    place.onego("rbd import disk.raw rbd/disk");
    place.onego("rbd export rbd/disk back.raw");
    assert!(fs::read(place.path("back.raw")).unwrap() == content);
    assert!(allocated(&place.path("back.raw")) < 4 << 20, "the exported file has no holes");
    assert!(place.onego_with_input("rbd export disk -", &[]).stdout == content);

    // The usual names: the file's for the image, the image's for the file.
    place.onego("rbd import disk.raw");
    fs::remove_file(place.path("disk.raw")).unwrap();
    place.onego("rbd export disk.raw");
    assert!(fs::read(place.path("disk.raw")).unwrap() == content);
}

#[test]
fn layouts_and_streams_make_no_difference_to_the_bytes() {
    let place = Place::with_cluster("");
    let content = disk(&place);
    for shape in
        ["--object-size 64K", "--object-size 1M --stripe-unit 16K --stripe-count 3", "--sparse-size 1M"]
    {
        place.onego(&format!("rbd import {shape} disk.raw image"));
        assert!(place.onego_with_input("rbd export image -", &[]).stdout == content, "{shape}");
        place.onego("rbd rm image");
        let output = place.onego_with_input(&format!("rbd import {shape} - image"), &content);
        assert!(output.status.success(), "{output:?}");
        assert!(place.onego_with_input("rbd export image -", &[]).stdout == content, "{shape} from a stream");
        place.onego("rbd rm image");
    }
    let output = place.onego_with_input("rbd import - empty", &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(place.onego_with_input("rbd export empty -", &[]).stdout.is_empty());
}

#[test]
fn images_are_shown_as_they_are() {
    let place = Place::with_cluster("");
    assert_eq!(place.onego("rbd ls"), "");
    place.onego("rbd create one --size 64");
    place.onego("rbd create rbd/two --size 10G --object-size 1M --stripe-unit 64K --stripe-count 4");
    assert_eq!(place.onego("rbd ls"), "one\ntwo\n");
    assert_eq!(place.onego("rbd ls rbd --format json"), "[\"one\",\"two\"]\n");
    let long = place.onego("rbd ls --long");
    assert!(long.starts_with("NAME") && long.contains("64 MiB") && long.contains("10 GiB"), "{long}");

    let info = place.onego("rbd info one");
    assert!(
        info.starts_with("rbd image 'one':\n\tsize 64 MiB in 16 objects\n\torder 22 (4 MiB objects)\n"),
        "{info}"
    );
    let info: serde_json::Value = serde_json::from_str(&place.onego("rbd info two --format json")).unwrap();
    assert_eq!(info["size"], 10_u64 << 30);
    assert_eq!(info["object_size"], 1 << 20);
    assert_eq!((&info["stripe_unit"], &info["stripe_count"]), (&65_536.into(), &4.into()));
    assert_eq!(
        info["features"],
        serde_json::json!([
            "layering",
            "striping",
            "exclusive-lock",
            "object-map",
            "fast-diff",
            "deep-flatten"
        ])
    );

    place.onego("rbd rm one");
    place.onego("rbd rm two");
    assert_eq!(place.onego("rbd ls --long"), "");
}

#[test]
fn images_of_format_1_are_made_where_they_are_allowed() {
    let place = Place::with_cluster("");
    let content = disk(&place);
    let (code, said) = place.onego_fails("rbd create --image-format 1 --size 8M old");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("format 1 is deprecated") && said.contains("RBD_FORCE_ALLOW_V1"), "{said}");
    let allowed = |line: &str| {
        let output = place.command(line).env("RBD_FORCE_ALLOW_V1", "1").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for options in ["--image-feature layering", "--stripe-unit 64K --stripe-count 3", "--data-pool rbd"] {
        let (code, said) = allowed(&format!("rbd create --image-format 1 --size 8M {options} old"));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("not allowed with format 1; use --image-format 2"), "{said}");
    }
    let (code, said) = allowed("rbd import --image-format 1 --object-size 1M disk.raw old");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("image format 1 is deprecated"), "{said}");
    assert!(place.onego_with_input("rbd export old -", &[]).stdout == content);
    place.onego("rbd create --image-format 2 --size 8M new");
    place.onego("rbd snap create old@one");
    assert_eq!(place.onego("rbd ls"), "old\nnew\n");
    let info = place.onego("rbd info old@one");
    let name = info.lines().find_map(|line| line.strip_prefix("\tblock_name_prefix: ")).unwrap();
    let rest = format!("\tblock_name_prefix: {name}\n\tformat: 1\n\tprotected: False\n");
    assert!(name.starts_with("rb.0.") && info.ends_with(&rest), "{info}");
    let snapshots: serde_json::Value =
        serde_json::from_str(&place.onego("rbd snap ls --format json old")).unwrap();
    assert_eq!((&snapshots[0]["name"], &snapshots[0]["timestamp"]), (&"one".into(), &"".into()));
    let long: serde_json::Value = serde_json::from_str(&place.onego("rbd ls --long --format json")).unwrap();
    assert_eq!((&long[0]["id"], &long[0]["format"], &long[2]["format"]), (&"".into(), &1.into(), &2.into()));
}

#[test]
fn what_a_resize_cuts_off_stays_lost() {
    let place = Place::with_cluster("");
    let mut content = disk(&place);
    place.onego("rbd import disk.raw image");
    place.onego("rbd resize --size 2M --allow-shrink image");
    place.onego(&format!("rbd resize --size {SIZE}B image"));
    content[2 << 20..].fill(0);
    assert!(place.onego_with_input("rbd export image -", &[]).stdout == content);
}

#[test]
fn an_import_whose_source_fails_leaves_no_image() {
    let place = Place::with_cluster("");
    // It can be opened, and nothing is mapped where it begins.
    let (code, said) = place.onego_fails("rbd import /proc/self/mem large");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("Input/output error") && !said.contains("--resume"), "{said}");
    assert_eq!(place.onego("rbd ls"), "");
}

#[test]
fn an_interrupted_cluster_ends_in_order() {
    let mut place = Place::with_cluster("--null-writes --engine uring");
    place.onego("rbd create --size 8M image");
    assert_eq!(place.stop_cluster(), Some(0));
}
#[test]
fn pools_are_made_shown_and_removed() {
    let place = Place::with_cluster("");
    place.onego("pool create fast 16");
    assert_eq!(place.onego("pool ls"), "rbd\nfast\n");
    let pools: serde_json::Value = serde_json::from_str(&place.onego("pool ls --format json")).unwrap();
    assert_eq!((&pools[1]["name"], &pools[1]["pg_num"]), (&"fast".into(), &16.into()));

    place.onego("rbd create --size 8M --pool fast image");
    place.onego("rbd create --size 8M --data-pool fast split");
    assert_eq!(place.onego("rbd ls fast"), "image\n");
    assert!(place.onego("rbd info fast/image").contains("size 8 MiB"));
    assert!(place.onego("rbd info split").contains("data_pool: fast"));
    place.onego("pool rm fast --yes-i-really-really-mean-it");
    assert_eq!(place.onego("pool ls"), "rbd\n");
}

#[test]
fn a_monitor_is_found_by_its_port_alone() {
    let place = Place::with_cluster("");
    let conf = std::fs::read_to_string(place.path("ceph.conf")).unwrap();
    place.onego("rbd create disk --size 1M");
    for protocol in ["v2:127.0.0.1:", "v1:127.0.0.1:"] {
        let (_, rest) = conf.split_once(protocol).unwrap();
        let port = rest.split('/').next().unwrap();
        assert_eq!(place.onego(&format!("--mon-host 127.0.0.1:{port} rbd ls")), "disk\n", "{protocol}{port}");
    }
}

#[test]
fn a_damaged_image_hides_no_other() {
    let place = Place::with_cluster("--osds 1");
    for name in ["a", "damaged", "z"] {
        place.onego(&format!("rbd create --size 8M {name}"));
    }
    let info: serde_json::Value =
        serde_json::from_str(&place.onego("rbd info damaged --format json")).unwrap();
    let id = info["id"].as_str().unwrap().to_owned();
    place.onego(&format!("rados -p rbd setomapval rbd_header.{id} size x"));
    for line in ["rbd ls --long", "rbd du"] {
        let output = place.command(line).output().unwrap();
        let (listed, said) = (output.stdout, String::from_utf8(output.stderr).unwrap());
        let listed = String::from_utf8(listed).unwrap();
        let names: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert!(names.contains(&"a") && names.contains(&"z"), "{line}: {listed}{said}");
        assert!(said.contains("warning: image damaged: "), "{line}: {said}");
        assert!(!output.status.success(), "{line} hides that an image is missing");
    }
}

#[test]
fn an_unknown_id_of_the_trash_is_looked_for_in_the_trash() {
    let place = Place::with_cluster("--osds 1");
    for line in ["rbd trash restore rbd/7", "rbd trash rm rbd/7"] {
        let (code, said) = place.onego_fails(line);
        assert!(code == 3 && said.contains("\"onego rbd trash ls POOL\""), "{line}: {said}");
    }
}
