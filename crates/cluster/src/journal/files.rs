//! The files of a data directory.

use super::direct::DirectFile;
use super::error::DataError;
use onego_buf::List;
use std::fmt;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek as _, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
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

    /// Takes a file that is there for a new one: it gets another name and is written from the front. What was in it stays
    /// behind what is written, until the file is finished. An error of kind `NotFound` if there is no such file.
    fn reuse(&self, old: &str, name: &str) -> io::Result<Self::File>;

    /// Writes to a file, perhaps later from the memory in which the bytes are now.
    fn append(&self, file: &mut Self::File, bytes: List) -> io::Result<()> {
        bytes.segments().try_for_each(|segment| file.write_all(segment))
    }

    /// Makes durable what was written to a file: a multiple of [`BLOCK`](super::BLOCK) bytes.
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Returns whether a log has space for more records than are in flight. A disk without it is full: nothing has failed, and
    /// only records that free space should follow.
    fn has_reserve(&self, _log: &mut Self::File) -> bool {
        true
    }

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

/// Says what a directory is. The process that has it locked uses the directory.
const IDENTITY: &str = "onego-cluster";

/// What is in it: the format of everything beside it.
const FORMAT: &str = "Onego cluster, format 6\n";

/// Formats of which every file is one of [`FORMAT`], too. Versions that know no other refuse what is written from now on.
const OLDER: [&str; 3] =
    ["Onego cluster, format 3\n", "Onego cluster, format 4\n", "Onego cluster, format 5\n"];

/// A data directory that no other process uses.
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
        if !identity.exists() && !is_alone(&path).map_err(failed("read"))? {
            return Err(DataError::Foreign { path });
        }
        let lock = lock(&identity).map_err(failed("lock"))?;
        let Some(mut lock) = lock else { return Err(DataError::InUse { path }) };
        let mut found = String::new();
        lock.read_to_string(&mut found).map_err(failed("read"))?;
        // A start that ended early may have left a part of it, and a power cut its length without its bytes.
        let is_part = found.len() < FORMAT.len() && FORMAT.starts_with(&found);
        let is_new = is_part || found.bytes().all(|byte| byte == 0);
        if OLDER.contains(&found.as_str()) || is_new && is_alone(&path).map_err(failed("read"))? {
            write_identity(&mut lock, &path).map_err(failed("write to"))?;
        } else if found != FORMAT {
            return Err(DataError::Format { path, found: found.trim().to_owned(), known: FORMAT.trim() });
        }
        let folder = File::open(&path).map_err(failed("open"))?;
        Ok(Self { path, folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens and locks a file, which is made if there is none. `None`: another process has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        // The lock is on the file, not on its name: if the file was replaced, it protects nothing.
        Ok(()) => Ok(if is_at(&file, path)? { Some(file) } else { None }),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Is there nothing in a folder but, perhaps, what says that it is a data directory?
fn is_alone(path: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(path)? {
        if entry?.file_name() != IDENTITY {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Is this open file the one at `path`?
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match path.metadata() {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Marks a folder as a data directory. Once the mark is durable, so is the way to it.
fn write_identity(file: &mut File, path: &Path) -> io::Result<()> {
    sync_ways_to(path, &mut |folder| File::open(folder)?.sync_all())?;
    // Never empty in between: one that is marked with an older format has data.
    file.rewind()?;
    file.write_all(FORMAT.as_bytes())?;
    file.set_len(FORMAT.len() as u64)?;
    file.sync_all()
}

/// Syncs a folder and those that it is in, as far as their file system goes: any of them may have been made a moment ago,
/// by this process or by one that was killed.
fn sync_ways_to(path: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let device = path.metadata()?.dev();
    for folder in path.ancestors() {
        if folder.metadata()?.dev() != device {
            break;
        }
        match sync(folder) {
            // Where this user cannot look, this user has made nothing.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            result => result?,
        }
    }
    Ok(())
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

    fn reuse(&self, old: &str, name: &str) -> io::Result<DirectFile> {
        self.rename(old, name)?;
        DirectFile::reuse(&self.path.join(name))
    }

    fn append(&self, file: &mut DirectFile, bytes: List) -> io::Result<()> {
        file.append(&bytes)
    }

    fn sync(&self, file: &mut DirectFile) -> io::Result<()> {
        file.sync()
    }

    fn has_reserve(&self, log: &mut DirectFile) -> bool {
        log.has_reserve()
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

/// Identifies a log, by its file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogId {
    /// The number of its first record.
    pub first: u64,
    /// A random number that its records carry (`record`). Zero before format 6, when the name had none.
    pub salt: u64,
}

impl LogId {
    /// The logs among these files, in order.
    pub(super) fn of(names: &[String]) -> Vec<Self> {
        let mut logs: Vec<Self> = names.iter().filter_map(|name| Self::parse(name)).collect();
        logs.sort_unstable();
        logs
    }

    fn parse(name: &str) -> Option<Self> {
        let numbers = name.strip_prefix("log.")?;
        let (first, salt) =
            numbers.split_once('.').map_or((numbers, None), |(first, salt)| (first, Some(salt)));
        Some(Self { first: number(first)?, salt: salt.map_or(Some(0), number)? })
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log.{:016x}", self.first)?;
        if self.salt == 0 { Ok(()) } else { write!(f, ".{:016x}", self.salt) }
    }
}

/// The checkpoint of all that was before the record of this number.
pub(super) fn checkpoint_name(before: u64) -> String {
    format!("checkpoint.{before:016x}")
}

/// What a file is that is not finished.
pub(super) const PART: &str = ".part";

/// The files of the last log and the last checkpoint that were not needed any more. The next ones are written into them: their space is
/// allocated, and nothing has to be freed, for which a file system that tells the device of it (`discard`) takes a third of the
/// time that the bytes took.
pub(super) const SPARE_LOG: &str = "spare.log";
pub(super) const SPARE_CHECKPOINT: &str = "spare.checkpoint";
pub(super) const SPARES: [&str; 2] = [SPARE_LOG, SPARE_CHECKPOINT];

/// Has the name of the newest log, so that a start misses it. Directories of earlier versions have none.
pub(super) const NEWEST_LOG: &str = "newest-log";

/// Longest name of a log, with the end of its line.
const LOG_NAME_MAX: u64 = 64;

/// The first record of the newest log, if that is noted.
pub(super) fn newest_log<F: Files>(files: &F, names: &[String]) -> io::Result<Option<u64>> {
    if !names.iter().any(|name| name == NEWEST_LOG) {
        return Ok(None);
    }
    let mut text = String::new();
    files.open(NEWEST_LOG)?.0.take(LOG_NAME_MAX).read_to_string(&mut text)?;
    let log = LogId::parse(text.trim_end()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(log.first))
}

/// The numbers of the checkpoints among these files, in order.
pub(super) fn checkpoints(names: &[String]) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| number(name.strip_prefix("checkpoint.")?)).collect();
    numbers.sort_unstable();
    numbers
}

fn number(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_new_directory_is_made_durable_from_its_end_on() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let path = top.join("a/b");
        std::fs::create_dir_all(&path).unwrap();
        let mut synced = Vec::new();
        let mut note = |folder: &Path| {
            synced.push(folder.to_owned());
            Ok(())
        };
        sync_ways_to(&path, &mut note).unwrap();
        assert_eq!(synced[..3], [path.clone(), top.join("a"), top.clone()]);
        // What is not readable ends it, and what fails is an error.
        let errors = [(io::ErrorKind::PermissionDenied, true), (io::ErrorKind::StorageFull, false)];
        for (kind, is_fine) in errors {
            let mut left = 2;
            let result = sync_ways_to(&path, &mut |_| {
                left -= 1;
                if left == 0 { Err(kind.into()) } else { Ok(()) }
            });
            assert_eq!((result.is_ok(), left), (is_fine, 0));
        }
    }

    #[test]
    fn a_lock_on_a_file_that_was_replaced_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        assert!(is_at(&file, &path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path).unwrap());
        std::fs::write(&path, "another").unwrap();
        assert!(!is_at(&file, &path).unwrap());
    }
}
