//! Disks in qcow2 files, against an encoder of the format (QEMU `docs/interop/qcow2.txt`) that shares nothing with the reader.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use onego_disk::{Backing, Container, Disk, FileFormat, OpenError};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// Bytes of a cluster.
const CLUSTER: usize = 4096;

/// Clusters whose places one table of the second level has.
const PER_TABLE: usize = CLUSTER / 8;

/// Contents of a cluster.
#[derive(Clone)]
enum Cluster {
    /// Those of the backing file, or zeros.
    Missing,
    Zeros,
    Data(Vec<u8>),
    Compressed(Vec<u8>),
}

/// Writes a qcow2 file of version 3 without reference counts, which readers do not need.
fn encode(path: &Path, size: u64, clusters: &[Cluster], backing: Option<&str>) {
    let tables = clusters.len().div_ceil(PER_TABLE).max(1);
    let mut file = vec![0; CLUSTER * (2 + tables)];
    file[..4].copy_from_slice(b"QFI\xfb");
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(4, &3_u32.to_be_bytes());
    if let Some(name) = backing {
        put(8, &1024_u64.to_be_bytes());
        put(16, &(name.len() as u32).to_be_bytes());
        put(1024, name.as_bytes());
        // Extension: format of the backing file.
        put(104, &0xe279_2aca_u32.to_be_bytes());
        put(108, &3_u32.to_be_bytes());
        put(112, b"raw");
    }
    put(20, &12_u32.to_be_bytes());
    put(24, &size.to_be_bytes());
    put(36, &(tables as u32).to_be_bytes());
    put(40, &(CLUSTER as u64).to_be_bytes());
    put(48, &(CLUSTER as u64).to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    for table in 0..tables {
        let at = (CLUSTER * (2 + table)) as u64 | 1 << 63;
        file[CLUSTER + 8 * table..][..8].copy_from_slice(&at.to_be_bytes());
    }
    for (number, cluster) in clusters.iter().enumerate() {
        let entry = match cluster {
            Cluster::Missing => 0,
            Cluster::Zeros => 1,
            Cluster::Data(bytes) => {
                file.resize(file.len().next_multiple_of(CLUSTER), 0);
                file.extend_from_slice(bytes);
                (file.len() - CLUSTER) as u64 | 1 << 63
            }
            Cluster::Compressed(bytes) => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(bytes).unwrap();
                let packed = encoder.finish().unwrap();
                let at = file.len() as u64;
                file.extend_from_slice(&packed);
                let sectors = (at + packed.len() as u64 - 1) / 512 - at / 512;
                1 << 62 | sectors << (62 - (12 - 8)) | at
            }
        };
        let at = CLUSTER * 2 + 8 * number;
        file[at..at + 8].copy_from_slice(&entry.to_be_bytes());
    }
    file.resize(file.len().next_multiple_of(CLUSTER), 0);
    fs::write(path, file).unwrap();
}

fn open(path: &Path, backing: Backing) -> Result<Container, OpenError> {
    Container::open(File::open(path).unwrap(), path, backing)
}

#[test]
fn random_files_read_as_the_disks_that_they_contain() {
    let folder = tempfile::tempdir().unwrap();
    let (path, base) = (folder.path().join("disk.qcow2"), folder.path().join("base"));
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        // The last cluster may be cut, and the backing file may be shorter or longer than the disk.
        let size = random.random_range(1..=40 * CLUSTER as u64);
        let count = (size as usize).div_ceil(CLUSTER);
        let has_backing = random.random_bool(0.5);
        let below: Vec<u8> = (0..random.random_range(0..50 * CLUSTER)).map(|_| random.random()).collect();
        fs::write(&base, &below).unwrap();
        let mut expected = vec![0; count * CLUSTER];
        if has_backing {
            let shared = below.len().min(size as usize);
            expected[..shared].copy_from_slice(&below[..shared]);
        }
        let mut clusters = Vec::new();
        for number in 0..count {
            let at = number * CLUSTER;
            let bytes: Vec<u8> = match random.random_bool(0.5) {
                true => (0..CLUSTER).map(|_| random.random_range(0..4)).collect(),
                false => (0..CLUSTER).map(|_| random.random()).collect(),
            };
            let cluster = match random.random_range(0..4) {
                0 => Cluster::Missing,
                1 => Cluster::Zeros,
                2 => Cluster::Data(bytes),
                // Incompressible bytes are not stored so.
                _ if bytes.iter().all(|byte| *byte < 4) => Cluster::Compressed(bytes),
                _ => Cluster::Data(bytes),
            };
            match &cluster {
                Cluster::Missing => {}
                Cluster::Zeros => expected[at..at + CLUSTER].fill(0),
                Cluster::Data(bytes) | Cluster::Compressed(bytes) => {
                    expected[at..at + CLUSTER].copy_from_slice(bytes);
                }
            }
            clusters.push(cluster);
        }
        expected.truncate(size as usize);
        encode(&path, size, &clusters, has_backing.then_some("base"));
        assert_eq!(FileFormat::detect(&File::open(&path).unwrap()).unwrap(), Some(FileFormat::Qcow2));
        let container = open(&path, Backing::Follow).unwrap();
        assert_eq!(container.size(), size);
        let mut read = vec![9; size as usize];
        container.read(0, &mut read).unwrap();
        assert!(read == expected, "seed {seed}");
        for _ in 0..20 {
            let at = random.random_range(0..size);
            let length = random.random_range(0..=(size - at).min(10_000));
            let mut part = vec![9; length as usize];
            container.read(at, &mut part).unwrap();
            assert!(part == expected[at as usize..(at + length) as usize], "seed {seed}: {length} at {at}");
        }
        // What is between the runs of data is zeros.
        let mut at = 0;
        while let Some((start, end)) = container.next_data(at, size).unwrap() {
            assert!(at <= start && start < end && end <= size, "seed {seed}: {start}..{end} after {at}");
            assert!(expected[at as usize..start as usize].iter().all(|byte| *byte == 0), "seed {seed}");
            at = end;
        }
        assert!(expected[at as usize..].iter().all(|byte| *byte == 0), "seed {seed}");
    }
}

#[test]
fn other_files_are_opened_only_where_the_caller_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.qcow2");
    let zeros = [Cluster::Missing];
    encode(&path, 4096, &zeros, Some("/etc/passwd"));
    let refused = open(&path, Backing::Refuse).unwrap_err();
    assert!(matches!(&refused, OpenError::Backing { named, .. } if named == "/etc/passwd"), "{refused}");
    assert!(open(&path, Backing::Follow).is_ok());
    // A name that leads back to the file, and one of a device that would wait.
    encode(&path, 4096, &zeros, Some("disk.qcow2"));
    let mut bytes = fs::read(&path).unwrap();
    bytes[112..117].copy_from_slice(b"qcow2");
    bytes[111] = 5;
    fs::write(&path, bytes).unwrap();
    let refused = open(&path, Backing::Follow).unwrap_err().to_string();
    assert!(refused.contains("more than 64"), "{refused}");
    encode(&path, 4096, &zeros, Some("/dev/tty"));
    let refused = open(&path, Backing::Follow).unwrap_err().to_string();
    assert!(refused.contains("neither a file nor a block device"), "{refused}");
    let missing = folder.path().join("none").display().to_string();
    encode(&path, 4096, &zeros, Some(&missing));
    let refused = open(&path, Backing::Follow).unwrap_err().to_string();
    assert!(refused.contains(&missing) && refused.contains("disk.qcow2"), "{refused}");
}

#[test]
fn damaged_files_are_errors_and_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.qcow2");
    let data = || Cluster::Data(vec![7; CLUSTER]);
    let clusters = [data(), Cluster::Zeros, Cluster::Compressed(vec![5; CLUSTER]), Cluster::Missing];
    encode(&path, 4 * CLUSTER as u64, &clusters, None);
    let whole = fs::read(&path).unwrap();
    let mut random = SmallRng::seed_from_u64(1);
    for _ in 0..1000 {
        let mut bytes = whole.clone();
        for _ in 0..random.random_range(1..4) {
            // The header, the tables and the compressed bytes.
            let at = match random.random_range(0..4) {
                0 => random.random_range(4..112),
                1 => CLUSTER + random.random_range(0..16),
                2 => 2 * CLUSTER + random.random_range(0..40),
                _ => random.random_range(0..bytes.len()),
            };
            bytes[at] = random.random();
        }
        bytes.truncate(random.random_range(bytes.len() / 2..=bytes.len()));
        fs::write(&path, bytes).unwrap();
        let Ok(container) = open(&path, Backing::Refuse) else { continue };
        let length = container.size().min(1 << 20);
        let _ = container.read(0, &mut vec![0; length as usize]);
        let mut at = 0;
        for _ in 0..100 {
            match container.next_data(at, container.size()) {
                Ok(Some((_, end))) => at = end,
                _ => break,
            }
        }
    }
}

#[test]
fn a_truncated_file_is_an_error_and_not_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.qcow2");
    let data = || Cluster::Data(vec![7; CLUSTER]);
    let clusters: Vec<Cluster> = (0..PER_TABLE + 10).map(|_| data()).collect();
    let size = (clusters.len() * CLUSTER) as u64;
    encode(&path, size, &clusters, None);
    let whole = fs::read(&path).unwrap();
    let read = |path: &Path| {
        let container = open(path, Backing::Refuse)?;
        let mut bytes = vec![0; size as usize];
        container
            .read(0, &mut bytes)
            .map(|()| bytes)
            .map_err(|source| OpenError::Io { path: path.into(), source })
    };
    assert!(read(&path).unwrap().iter().all(|byte| *byte == 7));
    for kept in (0..whole.len()).step_by(CLUSTER) {
        fs::write(&path, &whole[..kept]).unwrap();
        assert!(read(&path).is_err(), "{kept} of {} bytes are enough", whole.len());
    }
}

#[test]
fn encrypted_files_and_unknown_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, top) = (folder.path().join("disk.qcow2"), folder.path().join("top.qcow2"));
    encode(&path, 4096, &[Cluster::Data(vec![7; CLUSTER])], None);
    let whole = fs::read(&path).unwrap();
    for (at, value, expected) in
        [(35, 1, "encrypted"), (35, 2, "encrypted"), (35, 9, "encrypted"), (7, 9, "version 9")]
    {
        let mut bytes = whole.clone();
        bytes[at] = value;
        fs::write(&path, bytes).unwrap();
        assert_eq!(FileFormat::detect(&File::open(&path).unwrap()).unwrap(), Some(FileFormat::Qcow2));
        let refused = open(&path, Backing::Refuse).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        encode(&top, 4096, &[Cluster::Missing], Some("disk.qcow2"));
        let mut bytes = fs::read(&top).unwrap();
        bytes[112..117].copy_from_slice(b"qcow2");
        bytes[111] = 5;
        fs::write(&top, bytes).unwrap();
        let refused = open(&top, Backing::Follow).unwrap_err().to_string();
        assert!(refused.contains(expected), "below: {refused}");
    }
}

#[test]
fn a_disk_in_a_qcow2_file_is_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.qcow2");
    encode(&path, 10_000, &[Cluster::Data(vec![7; CLUSTER])], None);
    let disk = Disk::open(&path, true).unwrap();
    assert_eq!(disk.format().unwrap(), Some(FileFormat::Qcow2));
    let disk = disk.into_container(Backing::Refuse).unwrap();
    assert_eq!((disk.geometry().size, disk.geometry().read_only), (10_000, true));
    // It stays locked against writers.
    assert!(matches!(Disk::open(&path, false), Err(OpenError::Busy(_))));
    drop(disk);
    assert!(Disk::open(&path, false).is_ok());
}
