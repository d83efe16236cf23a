//! Files that are written by rename: configuration, keyrings, keys.

use super::disk::{Disk, cut};
use super::trace::{self, Recording};
use super::{PART, check, cuts, now};
use onego_service::private_file::{self, PUBLIC, SECRET};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const VERSIONS: usize = 40;

/// Files that are replaced, and one of each version that is made once.
const REPLACED: [&str; 2] = ["onego.toml", "keyring"];

fn content(version: usize) -> Vec<u8> {
    vec![b'a' + (version % 26) as u8; 100 + version * 50]
}

pub(super) fn write(folder: &Path) {
    for version in 0..VERSIONS {
        for (name, mode) in REPLACED.into_iter().zip([PUBLIC, SECRET]) {
            private_file::replace(&folder.join("disk").join(name), mode, &content(version)).unwrap();
        }
        private_file::create(&folder.join(format!("disk/key-{version}")), &content(version)).unwrap();
        println!("{version}");
        std::io::stdout().flush().unwrap();
    }
}

/// `acknowledged` versions were reported before the cut.
fn check_state(state: &Path, acknowledged: usize) -> Result<(), String> {
    for name in REPLACED {
        let found = fs::read(state.join(name)).ok();
        let legal = [acknowledged.checked_sub(1), (acknowledged < VERSIONS).then_some(acknowledged)];
        let is_legal = match &found {
            Some(bytes) => legal.into_iter().flatten().any(|version| content(version) == *bytes),
            None => acknowledged == 0,
        };
        if !is_legal {
            return Err(format!(
                "{name} after version {acknowledged}: {:?} bytes",
                found.map(|bytes| bytes.len())
            ));
        }
    }
    for version in 0..VERSIONS {
        let is_legal = match fs::read(state.join(format!("key-{version}"))) {
            Ok(bytes) => version <= acknowledged && bytes == content(version),
            Err(_) => version >= acknowledged,
        };
        if !is_legal {
            return Err(format!("key-{version} after version {acknowledged}"));
        }
    }
    Ok(())
}

pub(super) fn run() {
    let place = tempfile::tempdir().unwrap();
    let (root, log) = (place.path().join("disk"), place.path().join("log"));
    fs::create_dir(&root).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.arg(place.path()).env(PART, "private-files");
    let mut command = trace::start(&program, place.path(), &log, 1 << 20);
    let mut writer = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let times: Vec<f64> = lines.map_while(Result::ok).map(|_| now()).collect();
    assert!(writer.wait().unwrap().success() && times.len() == VERSIONS);
    let base = place.path().join("base");
    fs::create_dir(&base).unwrap();
    let mut recording = Recording::of(&root, place.path());
    recording.read(&log);
    check("private files", cuts(200), |seed, count, drops_half| {
        let mut disk = Disk::new(&recording, &base, seed, drops_half);
        cut(&mut disk, count, place.path(), |state, time| {
            check_state(state, times.iter().filter(|acknowledged| **acknowledged < time).count())
        })
    });
}
