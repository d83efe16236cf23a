//! `onego cp` between all kinds of devices that this program makes itself.

use crate::support::{FileServer, Place, signal};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// Bytes of what is copied: not a whole number of pieces.
const SIZE: u64 = (9 << 20) + 512;

/// A server of NBD that has said it is ready.
struct NbdServer {
    child: Child,
}

impl NbdServer {
    /// Serves a source on a Unix socket.
    fn start(place: &Place, source: &str, socket: &str) -> Self {
        let line = format!("export nbd {source} --socket {socket} --die-with-parent");
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.starts_with("ready: ")), "the server does not start");
        Self { child }
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file with data, zeros and holes in it, that no other seed has.
fn sparse(path: &Path, seed: u8) {
    let file = File::create(path).unwrap();
    file.set_len(SIZE).unwrap();
    for (at, length) in [(0, 4096), (100_000, 70_000), (3 << 20, 2 << 20), (SIZE - 512, 512)] {
        let bytes: Vec<u8> =
            (0..length).map(|n: u64| (n as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect();
        file.write_all_at(&bytes, at).unwrap();
    }
    file.write_all_at(&vec![0; 1 << 20], 6 << 20).unwrap();
}

fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn every_kind_of_device_is_copied_to_every_other() {
    let place = Place::with_cluster("--osds 1");
    let files = FileServer::start(&place, "");
    let port = files.port("port");
    File::create(place.path("served")).unwrap().set_len(SIZE).unwrap();
    let _server = NbdServer::start(&place, "served --reactors 2", "s");
    let names = |number: usize| {
        [
            format!("file{number}"),
            format!("rbd:disk{number}"),
            format!("nfs://127.0.0.1:{port}/export/disk{number}"),
            "nbd+unix:///served?socket=s".to_owned(),
        ]
    };
    for from in 0..4 {
        for to in 0..4 {
            let number = 4 * from + to;
            let (from, to) = (&names(number)[from], &names(number + 100)[to]);
            sparse(&place.path("original"), number as u8);
            if from != to {
                place.onego(&format!("cp original {from}"));
            }
            let source = if from == to { "original" } else { from.as_str() };
            let said = place.onego(&format!("cp {source} {to} --format json"));
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            assert_eq!(said["size"], SIZE, "{said}");
            assert_eq!(said["data"].as_u64().unwrap() + said["zeros"].as_u64().unwrap(), SIZE, "{said}");
            place.onego(&format!("cp {to} back --replace"));
            assert!(same(&place.path("original"), &place.path("back")), "{source} to {to}");
        }
    }
    assert!(allocated(&place.path("back")) < 3 << 20, "zeros are left out");
    place.onego("cp original null:10M");
    let said = place.onego("cp null:1T null:1T --format json --depth 1");
    assert!(said.contains("\"zeros\":1099511627776"), "{said}");
    // An image that is there is written to where that is asked for.
    let (code, said) = place.onego_fails("cp original rbd:disk101");
    assert_eq!(code, 4, "{said}");
    place.onego("cp original rbd:disk101 --in-place");
    place.onego("cp rbd:disk101 back --replace");
    assert!(same(&place.path("original"), &place.path("back")));
}

#[test]
fn a_file_that_is_there_is_replaced_or_written_to_only_where_that_is_asked_for() {
    let place = Place::new();
    sparse(&place.path("original"), 7);
    fs::write(place.path("copy"), "mine").unwrap();
    let (code, said) = place.onego_fails("cp original copy");
    assert_eq!(code, 4, "{said}");
    let (code, said) = place.onego_fails("cp original copy --in-place");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("the destination 4:"), "{said}");
    assert_eq!(fs::read(place.path("copy")).unwrap(), b"mine");
    place.onego("cp original copy --replace");
    assert!(same(&place.path("original"), &place.path("copy")));
    // What is behind the source stays, and zeros are written over what was there.
    let larger = vec![9; SIZE as usize + 4096];
    fs::write(place.path("larger"), &larger).unwrap();
    place.onego("cp original larger --in-place");
    let copied = fs::read(place.path("larger")).unwrap();
    assert!(copied[..SIZE as usize] == fs::read(place.path("original")).unwrap());
    assert!(copied[SIZE as usize..] == larger[SIZE as usize..]);
}

#[test]
fn a_device_is_not_copied_onto_itself_by_another_name() {
    let place = Place::with_cluster("--osds 1");
    let files = FileServer::start(&place, "");
    let port = files.port("port");
    sparse(&place.path("original"), 7);
    fs::hard_link(place.path("original"), place.path("same")).unwrap();
    place.onego("cp original rbd:disk");
    place.onego(&format!("cp original nfs://127.0.0.1:{port}/export/disk"));
    let _server = NbdServer::start(&place, "null:16M", "s");
    for line in [
        "cp original same --replace".to_owned(),
        "cp original same --in-place".to_owned(),
        "cp original ./original --in-place".to_owned(),
        "cp rbd:disk rbd:rbd/disk --in-place".to_owned(),
        format!("cp nfs://127.0.0.1:{port}/export/disk nfs://localhost:{port}/export/disk --in-place"),
        format!("cp nfs://127.0.0.1:{port}/export/disk nfs://localhost:{port}/export/disk --replace"),
        "cp nbd+unix:///?socket=s nbd+unix:///?socket=./s".to_owned(),
    ] {
        let (code, said) = place.onego_fails(&line);
        assert!(code == 2 && said.contains("is the source itself"), "{line}: {code}, {said}");
    }
}

#[test]
fn what_cannot_be_copied_is_said_with_the_side_that_is_wrong() {
    let place = Place::new();
    sparse(&place.path("original"), 7);
    std::os::unix::fs::symlink("nowhere", place.path("dangling")).unwrap();
    for (line, code, expected) in [
        ("cp none copy", 3, "none: No such file"),
        ("cp pool/disk copy", 3, "did you mean rbd:pool/disk?"),
        ("cp original pool/disk", 1, "did you mean rbd:pool/disk?"),
        ("cp original ./pool/disk", 1, "./pool/disk: No such file or directory"),
        ("cp . copy", 2, ". is neither a file nor a block device"),
        ("cp original .", 2, ". is a directory"),
        ("cp original missing/", 1, "missing/: Not a directory"),
        ("cp original missing/ --replace", 1, "missing/: Not a directory"),
        ("cp original dangling", 2, "leads to no file"),
        ("cp - copy", 2, "write ./- for a file"),
        ("cp original -", 2, "write ./- for a file"),
        ("cp original /dev/null", 2, "/dev/null is neither a file nor a block device"),
        ("cp original original", 2, "source and destination"),
        ("cp original null:1M", 2, "the source has 9437696 bytes, and the destination 1048576"),
        ("cp original null:1G --resume", 2, "leave --resume"),
        ("cp original nbd+unix:///?socket=none", 7, "no connection to the server"),
        ("cp nbds://host/disk copy", 2, "tls-certificates=FOLDER"),
        ("cp nbds://127.0.0.1:1/disk?tls-certificates=nosuch copy", 1, "nosuch/ca-cert.pem"),
    ] {
        let (got, said) = place.onego_fails(line);
        assert_eq!(got, code, "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
        assert!(!place.path("copy").exists(), "{line}");
    }
    let _held = NbdServer::start(&place, "original", "s");
    let (code, said) = place.onego_fails("cp null:4K original --in-place");
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("is in use"), "{said}");
    let (code, said) = place.onego_fails("cp nbd+unix:///other?socket=s copy");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("no export"), "{said}");
}

/// A file of data that takes a while to copy.
fn long(path: &Path) -> u64 {
    const BLOCKS: u64 = 300;
    let file = File::create(path).unwrap();
    let mut block: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for number in 0..BLOCKS {
        block[..8].copy_from_slice(&(number + 1).to_le_bytes());
        file.write_all_at(&block, number << 20).unwrap();
    }
    BLOCKS << 20
}

/// Starts a copy from a server that stops when `is_far` says so, and interrupts it then: gives what the copy said.
fn interrupted(place: &Place, line: &str, mut is_far: impl FnMut() -> bool) -> String {
    let server = NbdServer::start(place, "long", "s");
    let child = place.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !is_far() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the copy does not get far");
    }
    signal(&server.child, Signal::STOP);
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, Signal::TERM);
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(143), "{said}");
    signal(&server.child, Signal::CONT);
    said
}

#[test]
fn an_image_is_free_once_a_copy_to_it_is_interrupted() {
    let place = Place::with_cluster("--osds 1");
    long(&place.path("long"));
    place.onego("rbd create --size 300M disk");
    let is_open = || place.onego("rbd status disk").contains("watcher=");
    interrupted(&place, "cp nbd+unix:///long?socket=s rbd:disk --in-place --depth 2", is_open);
    place.onego("rbd rm disk");
}

#[test]
fn an_interrupted_copy_to_a_file_has_no_name_and_goes_on_where_it_was() {
    let place = Place::new();
    let size = long(&place.path("long"));
    let partial = place.path(".copy.onego-partial");
    let source = "nbd+unix:///long?socket=s";
    let is_far = || fs::metadata(&partial).is_ok_and(|about| about.len() > 150 << 20);
    let said = interrupted(&place, &format!("cp {source} copy --depth 4"), is_far);
    assert!(said.contains("--resume goes on"), "{said}");
    assert!(!place.path("copy").exists());
    let _server = NbdServer::start(&place, "long", "s");
    // A source that changed meanwhile is not mixed with what it was.
    let left = fs::metadata(&partial).unwrap().len();
    let changed = File::options().read(true).write(true).open(place.path("long")).unwrap();
    let mut byte = [0];
    changed.read_exact_at(&mut byte, 10 << 20).unwrap();
    changed.write_all_at(&[!byte[0]], 10 << 20).unwrap();
    let (code, said) = place.onego_fails(&format!("cp {source} copy --resume"));
    assert!(code == 2 && said.contains("differs from the source at byte 10485760"), "{code}, {said}");
    assert_eq!(fs::metadata(&partial).unwrap().len(), left);
    changed.write_all_at(&byte, 10 << 20).unwrap();
    let said = place.onego(&format!("cp {source} copy --resume --format json"));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let resumed_at = said["resumed_at"].as_u64().unwrap();
    assert!((80 << 20..size).contains(&resumed_at), "{said}");
    assert_eq!(said["data"], size - resumed_at);
    assert!(same(&place.path("long"), &place.path("copy")));
    assert!(!partial.exists());
    let (code, said) = place.onego_fails(&format!("cp {source} copy --resume"));
    assert_eq!(code, 4, "what has its name is whole: {said}");
}

#[test]
fn an_interrupted_copy_to_an_image_says_how_far_it_is_and_goes_on() {
    let place = Place::with_cluster("--osds 1");
    let size = long(&place.path("long"));
    let source = "nbd+unix:///long?socket=s";
    let is_made = || place.command("rbd info disk").output().unwrap().status.success();
    let said = interrupted(&place, &format!("cp {source} rbd:disk --depth 2"), is_made);
    assert!(said.contains("image disk is not whole") && said.contains("onego cp --resume"), "{said}");
    let _server = NbdServer::start(&place, "long", "s");
    let (code, said) = place.onego_fails(&format!("cp {source} rbd:disk"));
    assert_eq!(code, 4, "{said}");
    let said = place.onego(&format!("cp {source} rbd:disk --resume --format json"));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["data"].as_u64().unwrap() + said["resumed_at"].as_u64().unwrap(), size, "{said}");
    place.onego("cp rbd:disk copy");
    assert!(same(&place.path("long"), &place.path("copy")));
    let (code, said) = place.onego_fails(&format!("cp {source} rbd:disk --resume"));
    assert_eq!(code, 4, "{said}");
}
