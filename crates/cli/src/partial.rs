//! Files that are written beside their names until they are whole, so that half a file is never taken for a whole one.

use crate::failure::Failure;
use crate::interrupt::{Unfinished, say};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What the name of a file has behind it that is not whole.
const SUFFIX: &[u8] = b".onego-partial";

/// The longest name that file systems have.
const NAME_MAX: usize = 255;

/// The name beside which a file is called until it is whole.
pub(crate) fn name_of(name: &[u8]) -> Vec<u8> {
    let kept = name.len().min(NAME_MAX - 1 - SUFFIX.len());
    [b".", &name[..kept], SUFFIX].concat()
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
    /// None: it has its name already.
    partial: Option<PathBuf>,
    existing: Existing,
    len: u64,
    _unfinished: Option<Unfinished>,
}

impl PartialFile {
    /// Opens a file for what is to be at `path`. `replaces`: whether `--resume` may find a file of that name, too.
    pub(crate) fn open(path: &Path, existing: Existing) -> Result<Self, Failure> {
        let fail = || Failure::file(path);
        // A link stays one: what it leads to is replaced.
        let path = match path.canonicalize() {
            Ok(_) if existing == Existing::Refuse => return Err(fail()(Errno::EXIST.into())),
            Ok(path) => path,
            Err(_) => path.to_owned(),
        };
        let there = fs::metadata(&path).ok();
        let is_special = there.as_ref().is_some_and(|about| !about.is_file());
        if is_special || existing == Existing::InPlace {
            let options = OpenOptions::new().write(true).create(true).truncate(!is_special).open(&path);
            let file = options.map_err(fail())?;
            return Ok(Self { file, path, partial: None, existing, len: 0, _unfinished: None });
        }
        let name = path.file_name().unwrap_or(OsStr::new("")).as_bytes();
        let partial = path.with_file_name(OsString::from_vec(name_of(name)));
        if existing == Existing::Resume && there.is_some() && !partial.exists() {
            fs::rename(&path, &partial).map_err(fail())?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(libc_nofollow());
        // The name that people know is in the error where there is no such directory.
        let file = options.open(&partial).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => fail()(error),
            _ => Failure::file(&partial)(error),
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
        if existing != Existing::Resume {
            file.set_len(0).map_err(Failure::file(&partial))?;
        }
        if let Some(about) = &there {
            file.set_permissions(about.permissions()).map_err(Failure::file(&partial))?;
        }
        let len = file.metadata().map_err(Failure::file(&partial))?.len();
        let left = partial.clone();
        let unfinished = Unfinished::new(move || leave(&left));
        Ok(Self { file, path, partial: Some(partial), existing, len, _unfinished: Some(unfinished) })
    }

    /// Bytes that an earlier run has left.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file is now.
    pub(crate) fn place(&self) -> &Path {
        self.partial.as_deref().unwrap_or(&self.path)
    }

    /// The file is whole: makes it durable, and gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let fail = || Failure::file(&self.path);
        let Some(partial) = &self.partial else { return Ok(()) };
        self.file.sync_all().map_err(fail())?;
        match self.existing {
            Existing::Refuse => rename_new(partial, &self.path),
            _ => fs::rename(partial, &self.path),
        }
        .map_err(fail())?;
        let directory = match self.path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        self.partial = None;
        synced.map_err(Failure::file(directory))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // A signal's thread has said it.
        if let Some(left) = self.partial.as_deref().and_then(leave) {
            say(&left);
        }
    }
}

/// Removes a file that has nothing in it; of another one it says that it is there.
fn leave(partial: &Path) -> Option<String> {
    match fs::metadata(partial) {
        Ok(about) if about.len() > 0 => {
            Some(format!("{} has what has come so far: --resume goes on, or remove it", partial.display()))
        }
        Ok(_) => {
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

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, "old").unwrap();
        let file = PartialFile::open(&path, Existing::Replace).unwrap();
        file.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(PartialFile::open(&path, Existing::Replace).is_err(), "two write it at a time");
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["disk"]);
    }

    #[test]
    fn what_was_left_is_gone_on_with_and_nothing_is_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        drop(PartialFile::open(&path, Existing::Refuse).unwrap());
        assert!(names(folder.path()).is_empty());
        let file = PartialFile::open(&path, Existing::Refuse).unwrap();
        file.file().write_all_at(b"half", 0).unwrap();
        drop(file);
        assert_eq!(names(folder.path()), [".disk.onego-partial"]);
        let file = PartialFile::open(&path, Existing::Resume).unwrap();
        assert_eq!(file.len(), 4);
        file.file().write_all_at(b"+half", 4).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half+half");
        // What is there under its own name is the beginning, too.
        assert_eq!(PartialFile::open(&path, Existing::Resume).unwrap().len(), 9);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = PartialFile::open(&path, Existing::Refuse).unwrap();
        fs::write(&path, "other").unwrap();
        assert!(file.finish().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert!(PartialFile::open(&path, Existing::Refuse).is_err());
    }

    #[test]
    fn long_names_stay_names() {
        assert_eq!(name_of(b"disk"), b".disk.onego-partial");
        assert_eq!(name_of(&[b'x'; 255]).len(), 255);
    }
}
