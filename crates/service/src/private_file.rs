//! Files that other users must neither read, change nor put in place: keyrings and keys.
//!
//! A file is always made new (`O_EXCL`, without following links), under a name beside its own, and takes its name when all
//! of it is on the disk. So a link, a FIFO or a file that somebody else has put there is never written to, and nobody who
//! has an old file open reads the new one.

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The mode of a secret: its owner alone reads and writes it.
pub const SECRET: Mode = Mode::RUSR.union(Mode::WUSR);

/// The mode of a file that everybody may read.
pub const PUBLIC: Mode = SECRET.union(Mode::RGRP).union(Mode::ROTH);

/// What is behind the names of files that are being written.
const NEW: &str = ".onego-new";

/// Bits of a directory's mode.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Makes a directory and those above that are missing; only its owner may write to it, whatever the umask is.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Puts a new file in place of whatever has its name, a link itself included.
pub fn replace(path: &Path, mode: Mode, bytes: &[u8]) -> io::Result<()> {
    let place = Place::of(path, mode)?;
    place.write(mode, bytes, || rustix::fs::renameat(&place.dir, &place.new, &place.dir, place.name))
}

/// Makes a secret file, if there is none of that name.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = Place::of(path, SECRET)?;
    // A link is there as a whole or not at all, and never in place of anything.
    place.write(SECRET, bytes, || {
        rustix::fs::linkat(&place.dir, &place.new, &place.dir, place.name, AtFlags::empty())?;
        rustix::fs::unlinkat(&place.dir, &place.new, AtFlags::empty())
    })
}

/// Opens a secret file: a regular one that belongs to this process's user, and that nobody else may read or write. It
/// never waits, whatever the file is.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(refused("it is no regular file"));
    }
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user {
        return Err(refused(&format!("it belongs to user {}, and this is user {user}", about.uid())));
    }
    if about.mode() & 0o077 != 0 {
        return Err(refused("others may read or write it: chmod 600"));
    }
    Ok(file)
}

/// An error for a file that is not taken for that reason.
pub fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Where a file is written.
struct Place<'a> {
    dir: File,
    name: &'a OsStr,
    /// The name until the file is whole.
    new: OsString,
}

impl<'a> Place<'a> {
    /// The place of a file. A directory in which others could put another file under its name is none for a secret.
    fn of(path: &'a Path, mode: Mode) -> io::Result<Self> {
        let name = path.file_name().ok_or_else(|| refused("it names no file"))?;
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let dir = File::open(&parent)?;
        match check_directory(&parent, &dir) {
            Err(error) if mode == SECRET => return Err(error),
            Err(error) => tracing::warn!("{}: {error}", path.display()),
            Ok(()) => {}
        }
        let mut new = OsString::from(".");
        new.push(name);
        new.push(NEW);
        Ok(Self { dir, name, new })
    }

    /// Writes all of a new file, gives it its name by `put`, and makes both durable.
    fn write(&self, mode: Mode, bytes: &[u8], put: impl Fn() -> Result<(), Errno>) -> io::Result<()> {
        // One that a crash has left, or that somebody has put there: the name goes, not what it leads to.
        match rustix::fs::unlinkat(&self.dir, &self.new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.dir, &self.new, flags, mode)?);
        let put = || put().map_err(io::Error::from);
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| put());
        if written.is_err() {
            // The error that led here is the one to tell.
            let _ = rustix::fs::unlinkat(&self.dir, &self.new, AtFlags::empty());
        }
        written?;
        self.dir.sync_all()
    }
}

/// Fails if users who are neither this one nor root can give files in a directory other names. Of a group that can, it
/// warns: many systems give every user a group of his own.
fn check_directory(path: &Path, dir: &File) -> io::Result<()> {
    let about = dir.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user && about.uid() != 0 {
        let owner = about.uid();
        return Err(refused(&format!(
            "its directory belongs to user {owner}, who could replace it: choose one of your own"
        )));
    }
    // In a sticky directory each user can rename only what is his.
    if about.mode() & STICKY != 0 {
        return Ok(());
    }
    if about.mode() & OTHERS_WRITE != 0 {
        return Err(refused("every user can write to its directory, and could replace it: chmod o-w"));
    }
    if about.mode() & GROUP_WRITES != 0 {
        tracing::warn!(
            "group {} can write to {}, and replace the keys in it: chmod g-w",
            about.gid(),
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_link_that_was_planted_is_replaced_and_what_it_leads_to_is_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("keyring"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        symlink(&victim, folder.path().join(".keyring.onego-new")).unwrap();
        replace(&path, SECRET, b"secret").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read(&path).unwrap(), b"secret");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!((mode(&path), names(folder.path())), (0o600, 2));
    }

    #[test]
    fn a_file_that_is_there_gives_neither_its_mode_nor_its_readers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keyring");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let reader = File::open(&path).unwrap();
        replace(&path, SECRET, b"secret").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(io::read_to_string(reader).unwrap(), "old");
    }

    #[test]
    fn what_is_made_once_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path, b"one").unwrap();
        assert_eq!(create(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!((fs::read(&path).unwrap(), mode(&path), names(folder.path())), (b"one".into(), 0o600, 1));
        let dangling = folder.path().join("dangling");
        symlink(folder.path().join("elsewhere"), &dangling).unwrap();
        assert_eq!(create(&dangling, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!folder.path().join("elsewhere").exists());
    }

    #[test]
    fn a_directory_that_every_user_can_write_to_has_no_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let said = replace(&path, SECRET, b"secret").unwrap_err().to_string();
        assert!(said.contains("chmod o-w") && !path.exists(), "{said}");
        replace(&path, PUBLIC, b"known").unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        replace(&path, SECRET, b"secret").unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn what_is_no_secret_file_is_not_opened_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path, word: &str| {
            let said = open(path).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        };
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, SECRET, 0).unwrap();
        refused(&fifo, "no regular file");
        let path = folder.path().join("key");
        create(&path, b"secret").unwrap();
        assert!(open(&path).is_ok());
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        refused(&link, "symbolic link");
        fs::set_permissions(&path, Permissions::from_mode(0o604)).unwrap();
        refused(&path, "chmod 600");
        // Only root can give files away; other users meet files of root.
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&path, Some(1000), None).unwrap();
            refused(&path, "belongs to user 1000");
        } else {
            refused(std::path::Path::new("/etc/passwd"), "belongs to user 0");
        }
    }
}
