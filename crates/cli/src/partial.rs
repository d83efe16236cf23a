//! Files that are written beside their names until they are whole, so that half a file is never taken for a whole one.

use crate::failure::Failure;
use crate::identity::SourceFacts;
use crate::interrupt::{Unfinished, say};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Ends the name of a file that is not whole.
const SUFFIX: &[u8] = b".onego-partial";

/// Ends the name of the record next to it, which names the source.
const RECORD_SUFFIX: &[u8] = b".onego-source";

/// The longest name that file systems have.
const NAME_MAX: usize = 255;

/// Most bytes of a record.
const RECORD_MAX: u64 = 1024;

/// The name of a file until it is whole.
pub(crate) fn name_of(name: &[u8]) -> Vec<u8> {
    with_suffix(name, SUFFIX)
}

/// The name of the record next to it.
pub(crate) fn record_name_of(name: &[u8]) -> Vec<u8> {
    with_suffix(name, RECORD_SUFFIX)
}

fn with_suffix(name: &[u8], suffix: &[u8]) -> Vec<u8> {
    if 1 + name.len() + suffix.len() <= NAME_MAX {
        return [b".", name, suffix].concat();
    }
    // Long names that begin alike keep different names.
    let hash = format!("-{:016x}", fnv(name));
    let kept = NAME_MAX - 1 - hash.len() - suffix.len();
    [b".", &name[..kept], hash.as_bytes(), suffix].concat()
}

/// FNV-1a of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What becomes of a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is written.
    Refuse,
    /// It is there until the new one is whole.
    Replace,
    /// It is taken for the beginning.
    Resume,
    /// It is written to.
    InPlace,
}

/// A file that is being written. It has its name once it is [finished](Self::finish).
pub(crate) struct PartialFile {
    file: File,
    path: PathBuf,
    stage: Stage,
    existing: Existing,
    /// Permissions of a file that is replaced.
    mode: Option<u32>,
    len: u64,
    recorded: Option<String>,
    _unfinished: Option<Unfinished>,
}

/// Location of the bytes.
enum Stage {
    /// Under the file's own name, for good: it is written in place, or no regular file.
    InPlace { is_special: bool },
    /// Under the file's own name, to be moved: they are taken for the beginning.
    Adopted { partial: PathBuf },
    /// Next to it.
    Partial { partial: PathBuf },
    /// The file has its name.
    Finished,
}

impl PartialFile {
    /// Opens a file for what is to be at `path`. Nothing that exists changes before [`begin`](Self::begin).
    pub(crate) fn open(path: &Path, existing: Existing) -> Result<Self, Failure> {
        let fail = || Failure::file(path);
        if path.as_os_str().as_bytes().ends_with(b"/") && !path.is_dir() {
            return Err(fail()(Errno::NOTDIR.into()));
        }
        // A link stays one: what it leads to is replaced.
        let path = match path.canonicalize() {
            Ok(_) if existing == Existing::Refuse => return Err(fail()(Errno::EXIST.into())),
            Ok(path) => path,
            Err(_) if path.is_symlink() => {
                let why = "is a symbolic link that leads to no file: remove it, or name the file";
                return Err(Failure::Usage(format!("{} {why}", path.display())));
            }
            Err(_) => path.to_owned(),
        };
        let there = fs::metadata(&path).ok();
        let is_special = there.as_ref().is_some_and(|about| !about.is_file());
        if is_special || existing == Existing::InPlace {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).map_err(fail())?;
            let (stage, mode) =
                (Stage::InPlace { is_special }, there.map(|about| about.permissions().mode()));
            return Ok(Self { file, path, stage, existing, mode, len: 0, recorded: None, _unfinished: None });
        }
        let partial = beside(&path, name_of);
        let adopts = existing == Existing::Resume && there.is_some() && !partial.exists();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, place) = match adopts {
            true => (options.open(&path), &path),
            false => {
                options.create(true).truncate(false).mode(0o600).custom_flags(libc_nofollow());
                (options.open(&partial), &partial)
            }
        };
        // The name that people know is in the error where there is no such directory.
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => fail()(error),
            _ => Failure::file(place)(error),
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Usage(format!(
                    "{} is being written by another process",
                    path.display()
                )));
            }
            // A file system without locks.
            Err(TryLockError::Error(_)) => {}
        }
        let len = file.metadata().map_err(Failure::file(place))?.len();
        let recorded = if adopts { None } else { read_record(&beside(&path, record_name_of), &file) };
        let mode = there.map(|about| about.permissions().mode());
        let stage = if adopts { Stage::Adopted { partial } } else { Stage::Partial { partial } };
        let mut this = Self { file, path, stage, existing, mode, len, recorded, _unfinished: None };
        this.watch();
        Ok(this)
    }

    /// Registers the file: an early end reports it, or removes it if it is empty.
    fn watch(&mut self) {
        if let Stage::Partial { partial } = &self.stage {
            let (left, record) = (partial.clone(), beside(&self.path, record_name_of));
            self._unfinished = Some(Unfinished::new(move || leave(&left, &record)));
        }
    }

    /// Keeps the first `keep` bytes of an earlier run, and notes next to them what they are a copy of. To be called once,
    /// before anything is written, and after all checks.
    pub(crate) fn begin(&mut self, source: Option<&str>, keep: u64) -> Result<(), Failure> {
        match &self.stage {
            Stage::InPlace { is_special: true } | Stage::Finished => return Ok(()),
            Stage::InPlace { is_special: false } => {
                return self.file.set_len(keep).map_err(Failure::file(&self.path));
            }
            Stage::Adopted { partial } => {
                let (about, named) = (self.file.metadata(), fs::symlink_metadata(&self.path));
                let (about, named) =
                    (about.map_err(Failure::file(&self.path))?, named.map_err(Failure::file(&self.path))?);
                if (about.dev(), about.ino()) != (named.dev(), named.ino()) {
                    let why = "was replaced by another file meanwhile: copy again";
                    return Err(Failure::Usage(format!("{} {why}", self.path.display())));
                }
                rename_new(&self.path, partial).map_err(Failure::file(partial))?;
                let partial = partial.clone();
                self.stage = Stage::Partial { partial };
                self.watch();
            }
            Stage::Partial { .. } => {}
        }
        let record = beside(&self.path, record_name_of);
        // A record of another source must not stay next to bytes of this one.
        remove_if_there(&record).map_err(Failure::file(&record))?;
        self.file.set_len(keep).map_err(Failure::file(&self.path))?;
        if let Some(source) = source {
            let about = self.file.metadata().map_err(Failure::file(&self.path))?;
            let text = record_text(source, about.ino());
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let written = options.open(&record).and_then(|mut file| file.write_all(text.as_bytes()));
            written.map_err(Failure::file(&record))?;
        }
        Ok(())
    }

    /// Bytes that an earlier run has left.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Source of the bytes that an earlier run has left, if it noted that.
    pub(crate) fn recorded(&self) -> Option<&str> {
        self.recorded.as_deref()
    }

    /// Returns whether the file has its own name, and is taken for the beginning.
    pub(crate) fn is_adopted(&self) -> bool {
        matches!(self.stage, Stage::Adopted { .. })
    }

    /// Returns whether it is a pipe or a device, which has no holes.
    pub(crate) fn is_special(&self) -> bool {
        matches!(self.stage, Stage::InPlace { is_special: true })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file is now.
    pub(crate) fn place(&self) -> &Path {
        match &self.stage {
            Stage::Partial { partial } => partial,
            _ => &self.path,
        }
    }

    /// The file is whole: makes it durable, and gives it its name, and the permissions and time of its source. A file that
    /// is replaced leaves its own permissions.
    pub(crate) fn finish(mut self, source: &SourceFacts) -> Result<(), Failure> {
        let fail = || Failure::file(&self.path);
        let is_new = self.mode.is_none();
        let mode = self.mode.unwrap_or_else(|| source.mode_of_copy()) & 0o7777;
        if is_new || matches!(self.stage, Stage::Partial { .. }) {
            self.file.set_permissions(Permissions::from_mode(mode)).map_err(fail())?;
            if let Some(modified) = source.modified {
                self.file.set_modified(modified).map_err(fail())?;
            }
        }
        let Stage::Partial { partial } = &self.stage else { return Ok(()) };
        self.file.sync_all().map_err(fail())?;
        match self.existing {
            Existing::Refuse => rename_new(partial, &self.path),
            _ => fs::rename(partial, &self.path),
        }
        .map_err(fail())?;
        self.stage = Stage::Finished;
        let record = beside(&self.path, record_name_of);
        remove_if_there(&record).map_err(Failure::file(&record))?;
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(Failure::file(directory))
    }
}

/// The file next to another one, whose name `name` makes of its name.
fn beside(path: &Path, name: fn(&[u8]) -> Vec<u8>) -> PathBuf {
    path.with_file_name(OsString::from_vec(name(path.file_name().unwrap_or(OsStr::new("")).as_bytes())))
}

/// Text of a record: the source, and the number of the file that has its bytes.
pub(crate) fn record_text(source: &str, partial: u64) -> String {
    format!("{source} {partial}\n")
}

/// Source in a record, if it is about this file.
pub(crate) fn recorded_source(text: &str, partial: u64) -> Option<String> {
    let (source, number) = text.strip_suffix('\n')?.rsplit_once(' ')?;
    (number.parse() == Ok(partial)).then(|| source.to_owned())
}

fn read_record(record: &Path, partial: &File) -> Option<String> {
    let mut text = String::new();
    let file = OpenOptions::new().read(true).custom_flags(libc_nofollow()).open(record).ok()?;
    file.take(RECORD_MAX).read_to_string(&mut text).ok()?;
    recorded_source(&text, partial.metadata().ok()?.ino())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // A signal's thread has said it.
        if let Stage::Partial { partial } = &self.stage
            && let Some(left) = leave(partial, &beside(&self.path, record_name_of))
        {
            say(&left);
        }
    }
}

/// Removes a file that has nothing in it; of another one it says that it is there.
fn leave(partial: &Path, record: &Path) -> Option<String> {
    match fs::metadata(partial) {
        Ok(about) if about.len() > 0 => {
            Some(format!("{} has what has come so far: --resume goes on, or remove it", partial.display()))
        }
        Ok(_) => {
            let _ = fs::remove_file(record);
            let _ = fs::remove_file(partial);
            None
        }
        Err(_) => None,
    }
}

/// Gives a file a name that no other has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not know how: a link is as good, and where there are none, an empty file that must be new.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => {
                OpenOptions::new().write(true).create_new(true).open(to)?;
                fs::rename(from, to)
            }
        },
        other => Ok(other?),
    }
}

fn libc_nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    fn names(folder: &Path) -> Vec<String> {
        let names =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn begun(path: &Path, existing: Existing, keep: u64) -> PartialFile {
        let mut file = PartialFile::open(path, existing).unwrap();
        file.begin(Some("file:1"), keep).unwrap();
        file
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, "old").unwrap();
        let file = begun(&path, Existing::Replace, 0);
        file.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(PartialFile::open(&path, Existing::Replace).is_err(), "two write it at a time");
        file.finish(&SourceFacts::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["disk"]);
    }

    #[test]
    fn a_copy_has_the_permissions_and_the_time_of_its_source_and_keeps_those_of_a_file_it_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_700_000_000, 7);
        let source = SourceFacts { mode: Some(0o640), modified: Some(time), ..SourceFacts::default() };
        let file = begun(&path, Existing::Refuse, 0);
        assert_eq!(file.file().metadata().unwrap().permissions().mode() & 0o777, 0o600, "before it is whole");
        file.finish(&source).unwrap();
        let about = path.metadata().unwrap();
        assert_eq!((about.permissions().mode() & 0o777, about.modified().unwrap()), (0o640, time));
        fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        begun(&path, Existing::Replace, 0).finish(&source).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o604);
    }

    #[test]
    fn a_copy_is_resumed_next_to_the_record_of_its_source_and_nothing_is_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        drop(begun(&path, Existing::Refuse, 0));
        assert!(names(folder.path()).is_empty());
        let file = begun(&path, Existing::Refuse, 0);
        file.file().write_all_at(b"half", 0).unwrap();
        drop(file);
        assert_eq!(names(folder.path()), [".disk.onego-partial", ".disk.onego-source"]);
        let mut file = PartialFile::open(&path, Existing::Resume).unwrap();
        assert_eq!((file.len(), file.recorded()), (4, Some("file:1")));
        file.begin(None, 3).unwrap();
        file.file().write_all_at(b"+half", 3).unwrap();
        file.finish(&SourceFacts::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"hal+half");
        assert_eq!(names(folder.path()), ["disk"]);
        // A record is about one file.
        fs::write(folder.path().join(".disk.onego-source"), "file:1 1\n").unwrap();
        fs::write(folder.path().join(".disk.onego-partial"), "x").unwrap();
        assert_eq!(PartialFile::open(&path, Existing::Resume).unwrap().recorded(), None);
    }

    #[test]
    fn a_file_that_is_taken_for_the_beginning_keeps_its_name_until_the_copy_begins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, "whole").unwrap();
        let mut file = PartialFile::open(&path, Existing::Resume).unwrap();
        assert!(file.is_adopted() && file.len() == 5);
        drop(PartialFile::open(&path, Existing::Refuse).err().unwrap());
        assert_eq!(names(folder.path()), ["disk"], "nothing is renamed before all checks");
        file.begin(None, 5).unwrap();
        assert_eq!(names(folder.path()), [".disk.onego-partial"]);
        file.finish(&SourceFacts::default()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = begun(&path, Existing::Refuse, 0);
        fs::write(&path, "other").unwrap();
        assert!(file.finish(&SourceFacts::default()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert!(PartialFile::open(&path, Existing::Refuse).is_err());
    }

    #[test]
    fn what_cannot_be_finished_is_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
        for name in ["missing/", "dangling", "missing/file"] {
            for existing in [Existing::Refuse, Existing::Replace, Existing::Resume, Existing::InPlace] {
                let refused = PartialFile::open(&folder.path().join(name), existing);
                assert!(refused.is_err(), "{name}");
                assert_eq!(names(folder.path()), ["dangling"], "{name}");
            }
        }
    }

    #[test]
    fn long_names_stay_names_and_stay_different() {
        assert_eq!(name_of(b"disk"), b".disk.onego-partial");
        let long = |last: u8| [&[b'x'; 254][..], &[last]].concat();
        assert_eq!(name_of(&long(b'a')).len(), 255);
        assert_ne!(name_of(&long(b'a')), name_of(&long(b'b')));
        assert_ne!(record_name_of(&long(b'a')), record_name_of(&long(b'b')));
    }
}
