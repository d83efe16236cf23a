//! Commands that are interrupted: they end at the first signal, at every stage, and say what they leave behind.

use crate::support::{Place, interrupt, signal};
use onego::ceph::{Config, Reactor};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than any command has to wind down, and shorter than a command waits for somebody who does not answer.
const AT_ONCE: Duration = Duration::from_secs(15);

/// Bytes of what is moved: much more than is on its way at a time.
const SIZE: usize = 96 << 20;

/// Bytes of a block that is not repeated.
const BLOCK: usize = 1 << 20;

/// Bytes that no two places share.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let step = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33).to_le_bytes()[0]
    };
    let mut block: Vec<u8> = std::iter::repeat_with(step).take(BLOCK).collect();
    // By blocks: byte by byte takes seconds in a test that is not optimised.
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        block[..8].copy_from_slice(&(bytes.len() as u64 / BLOCK as u64 + 1).to_le_bytes());
        bytes.extend_from_slice(&block[..BLOCK.min(length - bytes.len())]);
    }
    bytes
}

/// Starts a command whose words and input are the test's.
fn spawn(place: &Place, line: &str) -> Child {
    let mut command = place.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end of a command that was interrupted.
fn end(child: Child, line: &str) -> (Option<i32>, String) {
    let begun = Instant::now();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(begun.elapsed() < AT_ONCE, "`onego {line}` took {:?} to end, and said\n{said}", begun.elapsed());
    assert!(!said.contains("panicked"), "{said}");
    (status.code(), said)
}

#[test]
fn a_signal_ends_commands_that_wait_for_nobody() {
    let place = Place::new();
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    fs::write(place.path("disk"), [1; 5000]).unwrap();
    let url = format!("nfs://127.0.0.1/export/file?nfsport={port}&mountport={port}");
    let cluster = format!("--mon-host v2:127.0.0.1:{port}");
    let lines = [
        format!("{cluster} pool ls"),
        format!("{cluster} cluster osd stop 1"),
        format!("{cluster} rbd ls"),
        format!("{cluster} rbd create --size 1G image"),
        format!("{cluster} rbd rm image"),
        format!("{cluster} rbd resize --size 2G image"),
        format!("{cluster} rbd import disk image"),
        format!("{cluster} rbd export image out"),
        format!("{cluster} bench rbd --no-floor"),
        format!("nfs ls {url}"),
        format!("nfs cat {url}"),
        format!("nfs cp {url} copy"),
        format!("nfs put disk {url}"),
        format!("nfs rm {url}"),
        format!("nfs df {url}"),
        format!("bench nfs --no-floor --server {url}"),
    ];
    let children: Vec<Child> = lines.iter().map(|line| spawn(&place, line)).collect();
    std::thread::sleep(Duration::from_secs(2));
    for (at, (mut child, line)) in children.into_iter().zip(&lines).enumerate() {
        assert!(child.try_wait().unwrap().is_none(), "`onego {line}` did not wait");
        let (name, code) = if at % 2 == 0 { (Signal::INT, 130) } else { (Signal::TERM, 143) };
        signal(&child, name);
        let (found, said) = end(child, line);
        assert_eq!(found, Some(code), "`onego {line}` said\n{said}");
        assert!(!said.contains("left behind"), "`onego {line}` said\n{said}");
    }
    for left in ["out", "copy", ".out.onego-partial", ".copy.onego-partial"] {
        assert!(!place.path(left).exists(), "{left} was left");
    }
}

/// Gives bytes to a command bit by bit, until it has had many, and interrupts it.
fn interrupt_while_it_reads(mut child: Child, line: &str, content: &[u8]) -> (Option<i32>, String) {
    let mut input: ChildStdin = child.stdin.take().unwrap();
    let (first, rest) = content.split_at(content.len() / 2);
    input.write_all(first).unwrap();
    assert!(child.try_wait().unwrap().is_none(), "`onego {line}` ended by itself");
    interrupt(&child);
    // It looks up between two reads; what is left to be read is nobody's then.
    std::thread::scope(|scope| {
        scope.spawn(move || drop(rest.chunks(64 << 10).try_for_each(|chunk| input.write_all(chunk))));
        end(child, line)
    })
}

#[test]
fn an_interrupted_import_leaves_an_image_that_says_so_and_goes_on() {
    let place = Place::with_cluster("");
    let content = bytes(SIZE);
    let line = "rbd import - disk";
    let (code, said) = interrupt_while_it_reads(spawn(&place, line), line, &content);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("image disk is not whole") && said.contains("--resume"), "{said}");
    let (code, refused) = place.onego_fails("cp rbd:disk copy");
    assert!(code == 5 && refused.contains("image disk is incomplete"), "{code}, {refused}");
    let info = place.onego("rbd info disk");
    let told = info.lines().find(|line| line.contains("not whole:")).unwrap_or_else(|| panic!("{info}"));
    let done: u64 = told.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!(done > 0 && done < SIZE as u64, "{told}");
    let (code, refused) = place.onego_fails("rbd export disk half");
    assert!(code == 5 && refused.contains("image disk is incomplete"), "{code}, {refused}");
    place.onego("rbd export disk half --allow-incomplete");

    let output = place.onego_with_input("rbd import --resume - disk", &content);
    assert!(output.status.success(), "{output:?}");
    assert!(!place.onego("rbd info disk").contains("not whole"));
    assert!(place.onego_with_input("rbd export disk -", &[]).stdout == content);
    // Nobody has it open.
    place.onego("rbd rm disk");
}

#[test]
fn an_import_into_a_cluster_that_stands_still_ends_and_goes_on() {
    let place = Place::with_cluster("");
    let content = bytes(SIZE);
    fs::write(place.path("disk.raw"), &content).unwrap();
    let line = "rbd import disk.raw disk";
    let child = spawn(&place, line);
    while place.onego("rbd ls").is_empty() {}
    place.signal_cluster(Signal::STOP);
    signal(&child, Signal::TERM);
    let (code, said) = end(child, line);
    place.signal_cluster(Signal::CONT);
    assert_eq!(code, Some(143), "{said}");
    assert!(said.contains("image disk is not whole"), "{said}");
    let (code, said) = place.onego_fails("rbd import disk.raw disk");
    assert_eq!(code, 4, "{said}");
    fs::write(place.path("other.raw"), &content[1..]).unwrap();
    let (code, said) = place.onego_fails("rbd import --resume other.raw disk");
    assert!(code == 2 && said.contains("begin anew"), "{said}");
    place.onego("rbd import --resume disk.raw disk");
    assert!(place.onego_with_input("rbd export disk -", &[]).stdout == content);
}

/// Bytes of an image that takes the room of a cluster with [`SMALL`] until it is removed.
const FILLER: usize = 48 << 20;

/// A cluster that is full before [`SIZE`] bytes are imported beside the filler, and has room for them without it.
const SMALL: &str = "--memory 128M";

/// A place with a cluster, a filler in it, and the file `disk.raw`.
fn place_with_little_room() -> (Place, Vec<u8>) {
    let place = Place::with_cluster(SMALL);
    let content = bytes(SIZE);
    fs::write(place.path("filler.raw"), &content[..FILLER]).unwrap();
    fs::write(place.path("disk.raw"), &content).unwrap();
    place.onego("rbd import filler.raw filler");
    (place, content)
}

/// The import has said what is left; the image says it, too, and the import goes on once there is room.
fn goes_on_with_room(place: &Place, content: &[u8], said: &str) {
    assert!(said.contains("image disk is not whole") && said.contains("--resume"), "{said}");
    let info = place.onego("rbd info disk");
    let told = info.lines().find(|line| line.contains("not whole:")).unwrap_or_else(|| panic!("{info}"));
    let done: u64 = told.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!(done > 0 && done < SIZE as u64, "{told}");
    place.onego("rbd rm filler");
    place.onego("rbd import --resume disk.raw disk");
    assert!(!place.onego("rbd info disk").contains("not whole"));
    assert!(place.onego_with_input("rbd export disk -", &[]).stdout == content);
    place.onego("rbd rm disk");
}

#[test]
fn an_import_that_waits_for_a_full_cluster_is_interrupted_and_goes_on() {
    let (place, content) = place_with_little_room();
    let line = "rbd import disk.raw disk";
    let mut child = spawn(&place, line);
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = stderr.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("the cluster is full")), "it does not say what it waits for");
    interrupt(&child);
    let begun = Instant::now();
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(begun.elapsed() < AT_ONCE, "it took {:?} to end, and said {said:?}", begun.elapsed());
    goes_on_with_room(&place, &content, &said.join("\n"));
}

#[test]
fn an_import_that_a_full_cluster_keeps_for_too_long_goes_on() {
    let (place, content) = place_with_little_room();
    let begun = Instant::now();
    let (code, said) = place.onego_fails("rbd import --request-timeout 3 disk.raw disk");
    assert_eq!(code, 7, "{said}");
    assert!(begun.elapsed() < 3 * AT_ONCE, "it took {:?}, and said\n{said}", begun.elapsed());
    goes_on_with_room(&place, &content, &said);
}

#[test]
fn an_import_that_a_full_cluster_refuses_goes_on() {
    let (place, content) = place_with_little_room();
    set_ratios(&place, "1.0");
    let (code, said) = place.onego_fails("rbd import disk.raw disk");
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    goes_on_with_room(&place, &content, &said);
}

/// From this part of its memory on the cluster counts as full: with 1.0 it does not, and refuses what does not fit.
fn set_ratios(place: &Place, ratio: &str) {
    let config = Config::from_file(place.path("ceph.conf")).unwrap();
    let (mut reactor, cluster) = Reactor::new(&config).unwrap();
    for level in ["full", "backfillfull", "nearfull"] {
        let command = format!(r#"{{"prefix": "osd set-{level}-ratio", "ratio": {ratio}}}"#);
        reactor.block_on(cluster.command(&command, Default::default())).unwrap().unwrap();
    }
}

/// Waits until a file has bytes in it. False: the command was done before.
fn wait_for_bytes(file: &Path, child: &mut Child) -> bool {
    loop {
        if fs::metadata(file).is_ok_and(|about| about.len() > 0) {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
    }
}

#[test]
fn an_interrupted_export_leaves_no_file_of_that_name_and_goes_on() {
    let place = Place::with_cluster("");
    let content = bytes(SIZE);
    fs::write(place.path("disk.raw"), &content).unwrap();
    place.onego("rbd import disk.raw disk");
    let (line, partial) = ("rbd export disk back.raw", place.path(".back.raw.onego-partial"));
    // The cluster stands still in the middle of it, unless it is done by then.
    let child = std::iter::repeat_with(|| {
        let mut child = spawn(&place, line);
        if wait_for_bytes(&partial, &mut child) {
            place.signal_cluster(Signal::STOP);
            std::thread::sleep(Duration::from_millis(200));
            if child.try_wait().unwrap().is_none() {
                return Some(child);
            }
            place.signal_cluster(Signal::CONT);
        }
        child.wait().unwrap();
        fs::remove_file(place.path("back.raw")).unwrap();
        None
    });
    let child = child.flatten().next().unwrap();
    assert!(!place.path("back.raw").exists(), "half a file has its name");
    interrupt(&child);
    let (code, said) = end(child, line);
    place.signal_cluster(Signal::CONT);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains(".back.raw.onego-partial") && said.contains("--resume"), "{said}");
    assert!(!place.path("back.raw").exists());
    let half = fs::read(&partial).unwrap();
    let whole = half.len() >> 20 << 20;
    assert!(half.len() <= SIZE && half[..whole] == content[..whole]);

    place.onego("rbd export --resume disk back.raw");
    assert!(fs::read(place.path("back.raw")).unwrap() == content && !partial.exists());
    let (code, said) = place.onego_fails("rbd export --resume disk back.raw");
    assert_eq!(code, 4, "{said}");
}

/// A server of files in memory.
struct Files {
    child: Child,
    url: String,
}

impl Files {
    fn start(place: &Place) -> Self {
        let line = "nfs serve --mem --insecure --tcp 0 --format json --die-with-parent";
        let mut child = place.command(line).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        let port = said["port"].as_u64().unwrap();
        Self { child, url: format!("nfs://127.0.0.1/export/FILE?nfsport={port}&mountport={port}") }
    }

    fn url(&self, file: &str) -> String {
        self.url.replace("FILE", file)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_interrupted_copy_to_a_server_leaves_no_file_of_that_name_and_goes_on() {
    let place = Place::new();
    let server = Files::start(&place);
    let content = bytes(SIZE);
    let url = server.url("disk");
    let line = format!("nfs put - {url}");
    let (code, said) = interrupt_while_it_reads(spawn(&place, &line), &line, &content);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains(".disk.onego-partial on the server") && said.contains("--resume"), "{said}");
    assert_eq!(
        place.onego(&format!("nfs ls {}", server.url(""))),
        ".disk.onego-partial\n.disk.onego-source\n"
    );
    // The advice is to remove what is named, which must not be a whole file.
    fs::write(place.path("short"), [1; 100]).unwrap();
    let (_, said) = place.onego_fails(&format!("nfs put --resume short {url}"));
    assert!(said.contains(".disk.onego-partial on the server has"), "{said}");
    let output = place.onego_with_input(&format!("nfs put --resume - {url}"), &content);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.onego(&format!("nfs ls {}", server.url(""))), "disk\n");
    assert!(place.onego_with_input(&format!("nfs cat {url}"), &[]).stdout == content);

    // What is there stays there until the other is whole, or for good.
    let (code, said) = place.onego_fails(&format!("nfs put --no-clobber /dev/null {url}"));
    assert_eq!(code, 4, "{said}");
    fs::write(place.path("small"), "small").unwrap();
    place.onego(&format!("nfs put small {url}"));
    assert_eq!(place.onego(&format!("nfs cat {url}")), "small");
    place.onego(&format!("nfs put --no-clobber small {}", server.url("new")));
    place.onego(&format!("nfs put --in-place small {}", server.url("new")));
    assert_eq!(place.onego(&format!("nfs ls {}", server.url(""))), "disk\nnew\n");
}

#[test]
fn an_interrupted_copy_from_a_server_that_stands_still_says_so_and_goes_on() {
    let place = Place::new();
    let server = Files::start(&place);
    let content = bytes(SIZE);
    fs::write(place.path("disk.raw"), &content).unwrap();
    let (url, partial) = (server.url("disk"), place.path(".back.onego-partial"));
    place.onego(&format!("nfs put disk.raw {url}"));
    fs::write(place.path("back"), "old").unwrap();
    let line = format!("nfs cp {url} back");
    let child = std::iter::repeat_with(|| {
        let mut child = spawn(&place, &line);
        if wait_for_bytes(&partial, &mut child) {
            signal(&server.child, Signal::STOP);
            std::thread::sleep(Duration::from_secs(4));
            if child.try_wait().unwrap().is_none() {
                return Some(child);
            }
            signal(&server.child, Signal::CONT);
        }
        child.wait().unwrap();
        fs::write(place.path("back"), "old").unwrap();
        None
    });
    let child = child.flatten().next().unwrap();
    interrupt(&child);
    let (code, said) = end(child, &line);
    signal(&server.child, Signal::CONT);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("waiting for a reply of the NFS server at 127.0.0.1"), "{said}");
    assert!(said.contains("because it has not answered"), "{said}");
    assert!(said.contains(".back.onego-partial") && said.contains("--resume"), "{said}");
    assert_eq!(fs::read_to_string(place.path("back")).unwrap(), "old");
    place.onego(&format!("nfs cp --resume {url} back"));
    assert!(fs::read(place.path("back")).unwrap() == content && !partial.exists());
}

#[test]
fn a_reader_that_goes_away_ends_commands_quietly() {
    let place = Place::with_cluster("");
    place.onego("rbd create --size 8M disk");
    for line in [
        "completions bash",
        "completions zsh",
        "rbd ls",
        "rbd info disk",
        "rbd export disk -",
        "pool ls --format json",
        "bench rbd --conf ceph.conf --size 8M --seconds 0.1 --rw read,write --no-floor",
    ] {
        let mut child = spawn(&place, line);
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(141), ""), "onego {line}");
    }
    assert_eq!(place.onego("rbd ls"), "disk\n");
}

#[test]
fn images_are_free_once_a_command_that_uses_them_is_interrupted() {
    let place = Place::with_cluster("--osds 1");
    fs::write(place.path("disk.raw"), bytes(2 * SIZE)).unwrap();
    place.onego("rbd import disk.raw disk");
    let line = "rbd deep cp disk copy";
    let child = std::iter::repeat_with(|| {
        let mut child = spawn(&place, line);
        while !place.onego("rbd ls").contains("copy") {}
        // It is done before the signal on a fast machine.
        let is_running = child.try_wait().unwrap().is_none();
        signal(&child, Signal::HUP);
        let (code, said) = end(child, line);
        place.onego("rbd rm copy");
        (is_running && code != Some(0)).then_some((code, said))
    });
    let (code, said) = child.take(20).flatten().next().expect("every copy was done before its signal");
    assert_eq!(code, Some(129), "{said}");
    place.onego("rbd rm disk");
}

#[test]
fn an_embedded_cluster_goes_with_its_directory() {
    let place = Place::new();
    fs::create_dir(place.path("tmp")).unwrap();
    let mut command = place.command("bench rbd --seconds 60 --size 16M --no-floor");
    command.env("TMPDIR", place.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let measured = lines.next().unwrap().unwrap();
    assert!(measured.starts_with("measuring an embedded cluster"), "{measured}");
    interrupt(&child);
    assert_eq!(end(child, "bench rbd").0, Some(130));
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0);
}
