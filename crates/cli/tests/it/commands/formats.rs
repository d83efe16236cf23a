//! Files that contain a disk in another form: qcow2 is read and written, and others are refused with advice.

use crate::support::{FileServer, Place};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// Bytes of the disk.
const SIZE: u64 = (5 << 20) + 512;

/// A place with a cluster, and a sparse disk in `disk.raw`.
fn place() -> (Place, Vec<u8>) {
    let place = Place::with_cluster("--osds 1");
    let file = File::create(place.path("disk.raw")).unwrap();
    file.set_len(SIZE).unwrap();
    for (at, byte) in [(4096, 1), (1 << 20, 2), (3_000_001, 3), (SIZE - 512, 4)] {
        file.write_all_at(&[byte; 512], at).unwrap();
    }
    let content = fs::read(place.path("disk.raw")).unwrap();
    (place, content)
}

#[test]
fn a_qcow2_file_is_the_disk_in_it() {
    let (place, content) = place();
    let is_disk = |name: &str| assert!(fs::read(place.path(name)).unwrap() == content, "{name}");
    place.onego("cp disk.raw disk.qcow2");
    let container = fs::read(place.path("disk.qcow2")).unwrap();
    assert!(container.starts_with(b"QFI\xfb\0\0\0\x03") && container != content);
    for line in
        ["cp disk.qcow2 rbd:copied", "rbd import disk.qcow2 imported", "rbd import disk.qcow2 disk.img"]
    {
        place.onego(line);
        let image = line.rsplit([' ', ':']).next().unwrap();
        place.onego(&format!("cp rbd:{image} {image}.back"));
        is_disk(&format!("{image}.back"));
    }
    place.onego("cp rbd:copied back.qcow2");
    place.onego("cp back.qcow2 back.raw");
    is_disk("back.raw");
    // One qcow2 file copied to another is copied as it is, and so is each with --raw.
    place.onego("cp disk.qcow2 same.qcow2");
    place.onego("cp disk.qcow2 bytes --raw");
    place.onego("rbd import disk.qcow2 bytes --raw");
    place.onego("cp rbd:bytes bytes.qcow2 --raw");
    for name in ["same.qcow2", "bytes", "bytes.qcow2"] {
        assert!(fs::read(place.path(name)).unwrap() == container, "{name}");
    }
    // QEMU reads only whole sectors of a disk.
    fs::write(place.path("odd.raw"), &content[..4097]).unwrap();
    place.onego("cp odd.raw odd.qcow2");
    place.onego("cp odd.qcow2 odd.back");
    assert_eq!(fs::read(place.path("odd.back")).unwrap(), [&content[..4097], &[0; 511]].concat());
    // The file is not written to as if it was the disk, and nothing is left of what did not finish.
    for line in ["cp disk.raw disk.qcow2 --in-place", "export nbd disk.qcow2 --socket s"] {
        let (code, said) = place.onego_fails(line);
        assert!(code == 2 && said.contains("disk.qcow2 is a qcow2 file"), "{line}: {code}, {said}");
    }
    let (code, said) = place.onego_fails("cp disk.raw new.qcow2 --resume");
    assert!(code == 2 && said.contains("leave --resume out"), "{code}, {said}");
    let (code, _) = place.onego_fails("cp disk.raw disk.qcow2");
    assert_eq!(code, 4);
    let left = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().contains("onego-partial")));
}

#[test]
fn a_backing_file_is_opened_only_where_that_is_asked_for() {
    let (place, content) = place();
    place.onego("cp null:5243392 top.qcow2");
    // The header gets the name of a backing file.
    let top = File::options().write(true).open(place.path("top.qcow2")).unwrap();
    top.write_all_at(b"disk.raw", 1024).unwrap();
    top.write_all_at(&1024_u64.to_be_bytes(), 8).unwrap();
    top.write_all_at(&8_u32.to_be_bytes(), 16).unwrap();
    for line in
        ["cp top.qcow2 copy", "rbd import top.qcow2 copy", "export nbd top.qcow2 --read-only --socket s"]
    {
        let (code, said) = place.onego_fails(line);
        assert_eq!(code, 5, "{line}: {said}");
        assert!(said.contains("\"disk.raw\"") && said.contains("--follow-backing-files"), "{line}: {said}");
    }
    place.onego("cp top.qcow2 copy --follow-backing-files");
    place.onego("rbd import top.qcow2 copy --follow-backing-files");
    place.onego("cp rbd:copy back");
    for name in ["copy", "back"] {
        assert!(fs::read(place.path(name)).unwrap() == content, "{name}");
    }
}

#[test]
fn other_formats_are_refused_with_advice_unless_their_bytes_are_asked_for() {
    let (place, _) = place();
    let files = FileServer::start(&place, "");
    let url = files.url("disk.vmdk");
    for (name, magic, advice) in [
        ("disk.vmdk", &b"KDMV\x01\0\0\0"[..], "qemu-img convert"),
        ("disk.vhdx", b"vhdxfile", "qemu-img convert"),
        ("disk.img.gz", b"\x1f\x8b\x08", "zcat disk.img.gz"),
        ("disk.img.zst", b"\x28\xb5\x2f\xfd", "zstdcat disk.img.zst"),
    ] {
        fs::write(place.path(name), [magic, &[0; 4096]].concat()).unwrap();
        for line in [
            format!("cp {name} rbd:copy"),
            format!("cp {name} copy"),
            format!("rbd import {name} copy"),
            format!("export nbd {name} --read-only --socket s"),
            format!("export vhost-user {name} --socket s"),
        ] {
            let (code, said) = place.onego_fails(&line);
            assert_eq!(code, 2, "{line}: {said}");
            assert!(said.contains(advice) && said.contains("--raw"), "{line}: {said}");
        }
        let read = place.onego_with_input("rbd import - copy", magic);
        let said = String::from_utf8(read.stderr).unwrap();
        assert!(!read.status.success() && said.contains("--raw"), "{name} as a stream: {said}");
        assert_eq!(place.onego("rbd ls"), "");
        // Under a name of the same format it is copied as it is.
        place.onego(&format!("cp {name} same-{name}"));
        place.onego(&format!("rbd import {name} copy --raw"));
        place.onego("rbd rm copy");
        let (code, said) = place.onego_fails(&format!("cp disk.raw new-{name}"));
        assert!(code == 2 && said.contains("--raw"), "{name}: {code}, {said}");
    }
    place.onego(&format!("nfs put disk.vmdk {url}"));
    let (code, said) = place.onego_fails(&format!("cp {url} rbd:copy"));
    assert!(code == 2 && said.contains("is a VMDK file"), "{code}, {said}");
    place.onego(&format!("cp {url} rbd:copy --raw"));
    for name in ["disk.vmdk", "disk.qcow2"] {
        let (code, said) = place.onego_fails(&format!("cp disk.raw {}", files.url(&format!("new-{name}"))));
        assert!(code == 2 && said.contains("--raw"), "{name}: {code}, {said}");
    }
}

#[test]
fn a_qcow2_file_with_unknown_features_is_refused_with_advice() {
    let (place, _) = place();
    place.onego("cp null:1M zstd.qcow2");
    // The type of compression differs from the default.
    let file = File::options().write(true).open(place.path("zstd.qcow2")).unwrap();
    file.write_all_at(&8_u64.to_be_bytes(), 72).unwrap();
    let (code, said) = place.onego_fails("cp zstd.qcow2 copy");
    assert!(
        code == 1 && said.contains("incompatible feature") && said.contains("qemu-img convert"),
        "{said}"
    );
}
