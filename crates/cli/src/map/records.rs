//! Which devices there are: a file for each in `/run/onego`, which only root reads.

use super::options::DeviceType;
use crate::failure::Failure;
use onego_service::private_file;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the files are. They go with the machine's next start, as the devices do.
const FOLDER: &str = "/run/onego";

/// A device that this program has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The driver that has the device.
    #[serde(default)]
    pub(super) kind: DeviceType,
    /// The number in its name.
    pub(super) id: u32,
    /// What it is made of, as it is named on the command line, with its pool.
    pub(super) source: String,
    /// What it is made of, by whatever name (`identity`).
    #[serde(default)]
    pub(super) identity: String,
    /// For an image; empty otherwise.
    pub(super) pool: String,
    pub(super) namespace: String,
    pub(super) image: String,
    #[serde(default)]
    pub(super) snap: Option<String>,
    /// The process that serves it, for the kernel. Another may have the number by now.
    pub(super) pid: u32,
    /// The command line by which it was mapped, and the folder that this was said in: to map it again, should its process end.
    pub(super) arguments: Vec<String>,
    pub(super) directory: PathBuf,
}

impl Record {
    /// The block device.
    pub(super) fn device(&self) -> PathBuf {
        Path::new("/dev").join(self.name())
    }

    /// What the kernel calls the device.
    fn name(&self) -> String {
        let prefix = match self.kind {
            DeviceType::Ublk => "ublkb",
            DeviceType::Nbd => "nbd",
        };
        format!("{prefix}{}", self.id)
    }

    /// Returns whether that one has the same source and driver.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.identity == other.identity
    }

    /// Returns whether that one has the same source and another driver.
    pub(super) fn is_other_kind(&self, other: &Self) -> bool {
        self.kind != other.kind && self.identity == other.identity
    }

    /// Returns whether a process serves it: one that holds the claim on its source.
    pub(super) fn has_process(&self) -> bool {
        let file = File::open(Claim::path(&self.identity));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Where the process that serves it, in the background, writes what it has to say.
    pub(super) fn log(&self) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.log", self.name()))
    }

    fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.json", self.name()))
    }

    /// Writes it, and an empty log.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let folder = Path::new(FOLDER);
        private_file::make_directory(folder).map_err(Failure::file(folder))?;
        let text = serde_json::to_vec(self).map_err(|error| Failure::file(&self.path())(error.into()))?;
        for (path, bytes) in [(self.path(), &text[..]), (self.log(), &[])] {
            private_file::replace(&path, private_file::SECRET, bytes).map_err(Failure::file(&path))?;
        }
        Ok(())
    }

    /// Removes it. Somebody may have done so.
    pub(super) fn remove(&self) {
        for path in [self.path(), self.log()] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "{} stays", path.display());
            }
        }
    }
}

/// The right to make a device of a source, which one process has until it drops this value or ends in whatever way.
pub(super) struct Claim {
    _lock: File,
    /// File to remove, whose name no other process uses.
    own: Option<PathBuf>,
}

/// How long a process that was killed may take to let go of its source.
const LETS_GO: Duration = Duration::from_millis(500);

impl Claim {
    /// File of the lock. The name of a file has no slashes, and no identity has the character in it.
    fn path(identity: &str) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.lock", identity.replace('/', "\\")))
    }

    /// Claims the source with this identity, which may be `unique`: no other process claims it. `None`: another process
    /// has it.
    pub(super) fn take(identity: &str, unique: bool) -> Result<Option<Self>, Failure> {
        let folder = Path::new(FOLDER);
        private_file::make_directory(folder).map_err(Failure::file(folder))?;
        let path = Self::path(identity);
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(Failure::file(&path))?;
        let until = Instant::now() + LETS_GO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _lock: file, own: unique.then_some(path) })),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(Failure::file(&path)(error)),
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(path) = &self.own {
            let _ = fs::remove_file(path);
        }
    }
}

/// All records, by number.
pub(super) fn all() -> Result<Vec<Record>, Failure> {
    let folder = Path::new(FOLDER);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::file(folder)(error)),
    };
    let mut records = Vec::new();
    for entry in entries {
        let path = entry.map_err(Failure::file(folder))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !(name.starts_with("ublkb") || name.starts_with("nbd")) || !name.ends_with(".json") {
            continue;
        }
        let text = match fs::read(&path) {
            Ok(text) => text,
            // It was unmapped just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::file(&path)(error)),
        };
        let record = serde_json::from_slice(&text).map_err(|error| Failure::file(&path)(error.into()))?;
        records.push(record);
    }
    records.sort_by_key(|record: &Record| (record.kind, record.id));
    Ok(records)
}
