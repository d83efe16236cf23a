//! Disks on files, driven by a real engine.

use onego_block::{BlockStatus, Completions, Device, Error, Flags, Op, Outcome, Request, StatusExtent};
use onego_buf::{List, SegmentMut};
use onego_disk::{Disk, Disks, OpenError};
use onego_engine::{AnyEngine, EngineKind, Pump, Wait};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

struct Rig {
    pump: Pump<AnyEngine, Disks>,
    device: Rc<dyn Device>,
    completions: Completions,
}

impl Rig {
    fn open(path: &Path, read_only: bool) -> Self {
        let engine = onego_engine::open(EngineKind::Epoll).unwrap();
        let disks = Disks::start(&onego_engine::Engine::waker(&engine)).unwrap();
        let device = disks.opener().device(&Disk::open(path, read_only).unwrap());
        Self { pump: Pump::new(engine, disks), device, completions: Completions::default() }
    }

    fn run(&mut self, offset: u64, op: Op, flags: Flags) -> Result<Outcome, Error> {
        let request = Request::new(self.completions.caller(0), offset, op).with_flags(flags);
        self.device.submit(self.pump.now(), request);
        loop {
            if let Some(completion) = self.completions.take() {
                return completion.result;
            }
            self.pump.turn(Wait::Forever).unwrap();
        }
    }

    fn write(&mut self, offset: u64, data: impl Into<List>) {
        self.run(offset, Op::Write { data: data.into() }, Flags::default()).unwrap();
    }

    fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        match self.run(offset, Op::Read { length }, Flags::default()).unwrap() {
            Outcome::Data(data) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn status(&mut self, offset: u64, length: u64) -> Vec<StatusExtent> {
        match self.run(offset, Op::Status { length }, Flags::default()).unwrap() {
            Outcome::Status(runs) => runs,
            other => panic!("{other:?}"),
        }
    }
}

/// Creates a directory on the file system of the build, which is on a disk: one in memory may not support direct I/O.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn file(folder: &tempfile::TempDir, size: u64) -> std::path::PathBuf {
    let path = folder.path().join("disk");
    File::create(&path).unwrap().set_len(size).unwrap();
    path
}

fn pieces(bytes: &[u8]) -> List {
    let mut list = List::new();
    bytes.chunks(1777).for_each(|piece| list.push(piece.to_vec()));
    list
}

#[test]
fn the_device_reads_and_writes_the_bytes_of_the_file() {
    const SIZE: u64 = (1 << 20) + 77;
    let (folder, mut random) = (folder(), SmallRng::seed_from_u64(7));
    let path = file(&folder, SIZE);
    let (mut rig, mut model) = (Rig::open(&path, false), vec![0; SIZE as usize]);
    for round in 0..400 {
        let grain = [1, 512, 4096][round % 3];
        let offset = random.random_range(0..SIZE) / grain * grain;
        let length = (random.random_range(1..100_000_u64) / grain * grain).min(SIZE - offset);
        let these = offset as usize..(offset + length) as usize;
        let flags = Flags { fua: round % 5 == 0, no_hole: round % 2 == 0, fast: false };
        match random.random_range(0..5) {
            0 => {
                let mut bytes = vec![0; length as usize];
                random.fill_bytes(&mut bytes);
                rig.run(offset, Op::Write { data: pieces(&bytes) }, flags).unwrap();
                model[these].copy_from_slice(&bytes);
            }
            1 => {
                rig.run(offset, Op::Zero { length }, flags).unwrap();
                model[these].fill(0);
            }
            2 => assert!(rig.read(offset, length) == model[these], "{offset} {length}"),
            3 => {
                let mut buffer = SegmentMut::zeroed(length as usize + 1);
                let buffer = {
                    drop(buffer.split_to(1));
                    buffer
                };
                match rig.run(offset, Op::ReadInto { buffer }, Flags::default()).unwrap() {
                    Outcome::Filled(buffer) => assert!(buffer[..] == model[these]),
                    other => panic!("{other:?}"),
                }
            }
            _ => drop(rig.run(0, Op::Flush, Flags::default()).unwrap()),
        }
    }
    assert!(fs::read(&path).unwrap() == model);
}

#[test]
fn trimmed_and_zeroed_ranges_are_reported_as_holes() {
    let folder = folder();
    let path = file(&folder, 1 << 20);
    let mut rig = Rig::open(&path, false);
    let hole = |length| StatusExtent { length, status: BlockStatus::HOLE };
    let data = |length| StatusExtent { length, status: BlockStatus::DATA };
    assert_eq!(rig.status(0, 1 << 20), [hole(1 << 20)]);
    rig.write(0, vec![1; 1 << 20]);
    assert_eq!(rig.status(4096, 1 << 19), [data(1 << 19)]);
    rig.run(64 << 10, Op::Trim { length: 64 << 10 }, Flags::default()).unwrap();
    rig.run(256 << 10, Op::Zero { length: 64 << 10 }, Flags::default()).unwrap();
    let kept = Flags { no_hole: true, ..Flags::default() };
    rig.run(512 << 10, Op::Zero { length: 64 << 10 }, kept).unwrap();
    let found = rig.status(0, 512 << 10);
    assert_eq!(found, [data(64 << 10), hole(64 << 10), data(128 << 10), hole(64 << 10), data(192 << 10)]);
    assert_eq!(rig.read(256 << 10, 64 << 10), vec![0; 64 << 10]);
    assert_eq!(rig.read(512 << 10, 64 << 10), vec![0; 64 << 10]);
    let allocated = fs::metadata(&path).unwrap().blocks() * 512;
    assert!((896 << 10..1 << 20).contains(&allocated), "{allocated}");
}

#[test]
fn writers_exclude_each_other_and_readers_share() {
    let folder = folder();
    let path = file(&folder, 4096);
    let writer = Disk::open(&path, false).unwrap();
    for read_only in [false, true] {
        assert!(matches!(Disk::open(&path, read_only), Err(OpenError::Busy(_))));
    }
    drop(writer);
    let readers = [(); 2].map(|()| Disk::open(&path, true).unwrap());
    assert!(matches!(Disk::open(&path, false), Err(OpenError::Busy(_))));
    drop(readers);
    Disk::open(&path, false).unwrap();
}

#[test]
fn pipes_directories_and_character_devices_are_rejected_without_blocking() {
    let folder = folder();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
        for read_only in [false, true] {
            let refused = Disk::open(path, read_only).unwrap_err();
            assert!(matches!(refused, OpenError::Kind(_)), "{refused}");
        }
    }
    assert!(matches!(Disk::open(&folder.path().join("none"), true), Err(OpenError::Io { .. })));
}

#[test]
fn a_read_only_disk_rejects_changes() {
    let folder = folder();
    let mut rig = Rig::open(&file(&folder, 4096), true);
    assert_eq!(rig.read(0, 4096), vec![0; 4096]);
    let refused = rig.run(0, Op::Write { data: vec![1].into() }, Flags::default()).unwrap_err();
    assert_eq!(refused, Error::ReadOnly);
}

#[test]
fn a_truncated_file_reads_neither_as_zeros_nor_as_a_hole() {
    let folder = folder();
    let path = file(&folder, 64 << 10);
    let mut rig = Rig::open(&path, false);
    File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    for length in [8192, 5000] {
        let failed = rig.run(0, Op::Read { length }, Flags::default()).unwrap_err();
        assert!(failed.to_string().contains("become shorter"), "{failed}");
    }
    // `lseek` reports a hole after the end of the file.
    let failed = rig.run(0, Op::Status { length: 8192 }, Flags::default()).unwrap_err();
    assert!(failed.to_string().contains("become shorter"), "{failed}");
}

#[test]
fn many_requests_run_concurrently() {
    let folder = folder();
    let mut rig = Rig::open(&file(&folder, 4 << 20), false);
    let now = rig.pump.now();
    for tag in 0..1024 {
        let data = vec![tag as u8; 4096].into();
        rig.device.submit(now, Request::new(rig.completions.caller(tag), tag * 4096, Op::Write { data }));
    }
    let mut done = 0;
    while done < 1024 {
        while let Some(completion) = rig.completions.take() {
            completion.result.unwrap();
            done += 1;
        }
        if done < 1024 {
            rig.pump.turn(Wait::Forever).unwrap();
        }
    }
    let bytes = rig.read(0, 4 << 20);
    assert!(bytes.chunks(4096).enumerate().all(|(tag, block)| block.iter().all(|byte| *byte == tag as u8)));
}
