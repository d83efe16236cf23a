//! Copies to a local file that are interrupted and resumed.

use super::disk::{Disk, cut};
use super::support::{FileServer, Place};
use super::trace::{self, Recording};
use super::{check, cuts};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// More than a copy writes between two syncs.
const SIZE: usize = 72 << 20;

/// Bytes of each write that are recorded; the others are the source's.
const RECORDED: usize = 4096;

/// Time after which the first run is interrupted.
const INTERRUPTED: Duration = Duration::from_millis(250);

/// The name of the copy.
const COPY: &str = "copy";
const PARTIAL: &str = ".copy.onego-partial";
const RECORD: &str = ".copy.onego-source";

/// Bytes of each of a record's slots, and their first word.
const SLOT: usize = 512;
const MAGIC: &str = "onego-partial-copy";

fn source() -> Vec<u8> {
    let mut word = 1_u64;
    let words = std::iter::repeat_with(|| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word.to_le_bytes()
    });
    words.take(SIZE / 8).flatten().collect()
}

pub(super) fn of_a_disk() {
    let place = Place::new();
    let bytes = source();
    fs::write(place.path("source"), &bytes).unwrap();
    let source = place.path("source");
    copy("cp --resume", &place, &bytes, &|copy| {
        format!("cp --no-progress --resume {} {}", source.display(), copy.display())
    });
}

pub(super) fn from_nfs() {
    let place = Place::new();
    let bytes = source();
    fs::create_dir(place.path("served")).unwrap();
    fs::write(place.path("served/source"), &bytes).unwrap();
    let server = FileServer::of_directory(&place, "served");
    let url = server.url("source");
    copy("nfs cp --resume", &place, &bytes, &|copy| {
        format!("nfs cp --no-progress --resume {url} {}", copy.display())
    });
}

pub(super) fn of_an_image() {
    let place = Place::with_cluster("--osds 1");
    let bytes = source();
    fs::write(place.path("source"), &bytes).unwrap();
    place.onego("rbd import --no-progress source rbd/disk");
    copy("rbd export --resume", &place, &bytes, &|copy| {
        format!("rbd export --no-progress --resume rbd/disk {}", copy.display())
    });
}

/// Records a copy that is interrupted and then resumed, and resumes it from crash states.
fn copy(name: &str, place: &Place, source: &[u8], line: &dyn Fn(&Path) -> String) {
    let (root, base) = (place.path("disk"), place.path("base"));
    let cwd = root.parent().unwrap();
    fs::create_dir(&root).unwrap();
    fs::create_dir(&base).unwrap();
    let mut recording = Recording::of(&root, cwd);
    for is_interrupted in [true, false] {
        let log = place.path("log");
        let program = place.command(&line(&root.join(COPY)));
        let mut command = trace::start(&program, cwd, &log, RECORDED);
        let mut running = command.stdout(Stdio::null()).spawn().unwrap();
        if is_interrupted {
            std::thread::sleep(INTERRUPTED);
            if running.try_wait().unwrap().is_none() {
                kill_process(trace::traced(&running), Signal::INT).unwrap();
            }
        }
        let status = running.wait().unwrap();
        assert!(is_interrupted || status.success(), "{name}: {status}");
        recording.read(&log);
        // A slow machine's first run may not have begun, and a fast one's may be whole.
        if root.join(COPY).exists() {
            break;
        }
    }
    assert!(fs::read(root.join(COPY)).unwrap() == source);
    // Their syncs are no part of the test.
    let states = tempfile::tempdir_in(if Path::new("/dev/shm").exists() { "/dev/shm" } else { "." }).unwrap();
    check(name, cuts(8), |seed, count, drops_half| {
        let mut disk = Disk::new(&recording, &base, seed, drops_half).with_content(COPY, source);
        cut(&mut disk, count, states.path(), |state, time| {
            let copy = state.join(COPY);
            if !copy.exists() {
                name_file_anew(state);
                if time.is_infinite() {
                    return Err("the finished copy is gone".to_owned());
                }
                let output = place.command(&line(&copy)).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                if !output.status.success() {
                    // Bytes without a record: nothing is relied on, and the remedy is named.
                    let is_refused = said.contains("rename or remove it");
                    return if is_refused { Ok(()) } else { Err(said.into_owned()) };
                }
            }
            let found = fs::read(&copy).map_err(|error| error.to_string())?;
            if found == source {
                return Ok(());
            }
            let same = found.iter().zip(source).take_while(|(one, other)| one == other).count();
            Err(format!("differs at {same} of {}", found.len()))
        })
    });
}

/// Puts the number of the state's file into its record: numbers are the file system's, and a crash keeps them.
fn name_file_anew(state: &Path) {
    let (Ok(file), record) = (fs::metadata(state.join(PARTIAL)), state.join(RECORD)) else { return };
    let Ok(mut bytes) = fs::read(&record) else { return };
    for slot in bytes.chunks_mut(SLOT) {
        let Some((_, said)) =
            std::str::from_utf8(slot).ok().and_then(|text| text.trim_end().split_once(" file="))
        else {
            continue;
        };
        let Some((_, rest)) = said.split_once(' ') else { continue };
        // What a torn slot says does not become true.
        if !slot.starts_with(format!("{MAGIC} {:016x} ", fnv(format!("file={said}").as_bytes())).as_bytes()) {
            continue;
        }
        let said = format!("file={} {rest}", file.ino());
        let line = format!("{MAGIC} {:016x} {said}", fnv(said.as_bytes()));
        slot.copy_from_slice(format!("{line:<width$}\n", width = SLOT - 1).as_bytes());
    }
    fs::write(&record, bytes).unwrap();
}

/// FNV-1a of 64 bits, the checksum of a slot.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
