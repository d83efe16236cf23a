//! The files of a data directory.

use super::DataError;
use super::direct::DirectFile;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What the journal needs of a folder. Nothing of it is durable before it is synced, and then files and their names are
/// two things.
pub trait Files {
    /// A file that is written from front to back. What is written may stay in the process until it is flushed.
    type File: Write;

    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens a file to be read, and says how long it is.
    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + '_>, u64)>;

    /// Makes an empty file, also if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Makes durable what was written to a file. Zeros may be added, up to a multiple of [`BLOCK`](super::BLOCK) bytes.
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Makes durable what was written to a file, and that nothing follows it. Nothing may be written afterwards.
    fn finish(&self, file: &mut Self::File) -> io::Result<()>;

    /// Cuts a file off behind `len` bytes, and makes durable what is left.
    fn cut(&self, name: &str, len: u64) -> io::Result<()>;

    /// Gives a file another name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which files there are.
    fn sync_names(&self) -> io::Result<()>;
}

/// Says what a directory is. Whoever has it locked uses the directory.
const IDENTITY: &str = "onego-cluster";

/// What is in it: the format of everything beside it.
const FORMAT: &str = "Onego cluster, format 2\n";

/// A data directory that nobody else uses.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// The folder itself, and the file that is locked.
    folder: File,
    _lock: File,
}

impl Directory {
    /// Opens a directory, or makes it if there is none or an empty one.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |what: &'static str| move |source| DataError::Io { what, path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make"))?;
        let path = path.canonicalize().map_err(failed("find"))?;
        let identity = path.join(IDENTITY);
        if !identity.exists() {
            let mut names = std::fs::read_dir(&path).map_err(failed("read"))?;
            if names
                .any(|name| name.is_ok_and(|name| name.file_name() != format!("{IDENTITY}.part").as_str()))
            {
                return Err(DataError::Foreign { path });
            }
            write_identity(&path).map_err(failed("write to"))?;
        }
        let lock = File::open(&identity).map_err(failed("read"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        let found = std::fs::read_to_string(&identity).map_err(failed("read"))?;
        if found != FORMAT {
            return Err(DataError::Format { path, found: found.trim().to_owned(), known: FORMAT.trim() });
        }
        let folder = File::open(&path).map_err(failed("open"))?;
        Ok(Self { path, folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Marks an empty folder as a data directory. The mark is there as a whole or not at all.
fn write_identity(path: &Path) -> io::Result<()> {
    let part = path.join(format!("{IDENTITY}.part"));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(FORMAT.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(part, path.join(IDENTITY))?;
    File::open(path)?.sync_all()
}

impl Files for Directory {
    type File = DirectFile;

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.path)?;
        // A name that is no text is none of ours.
        let names =
            entries.map(|entry| entry.map(|entry| entry.file_name().into_string().unwrap_or_default()));
        names.collect()
    }

    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + '_>, u64)> {
        let file = File::open(self.path.join(name))?;
        let len = file.metadata()?.len();
        Ok((Box::new(io::BufReader::with_capacity(1 << 20, file)), len))
    }

    fn create(&self, name: &str) -> io::Result<DirectFile> {
        DirectFile::create(&self.path.join(name))
    }

    fn sync(&self, file: &mut DirectFile) -> io::Result<()> {
        file.sync()
    }

    fn finish(&self, file: &mut DirectFile) -> io::Result<()> {
        file.finish()
    }

    fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        let file = File::options().write(true).open(self.path.join(name))?;
        file.set_len(len)?;
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.folder.sync_all()
    }
}

/// The log whose first record has this number.
pub(super) fn log_name(first: u64) -> String {
    format!("log.{first:016x}")
}

/// The checkpoint of all that was before the record of this number.
pub(super) fn checkpoint_name(before: u64) -> String {
    format!("checkpoint.{before:016x}")
}

/// What a file is that is not finished.
pub(super) const PART: &str = ".part";

/// The numbers in the names of the files of a kind, in order.
pub(super) fn numbers(names: &[String], kind: &str) -> Vec<u64> {
    let number = |name: &String| {
        let digits = name.strip_prefix(kind)?.strip_prefix('.')?;
        u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
