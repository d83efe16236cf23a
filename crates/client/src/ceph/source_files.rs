//! Policy on local files that may act as image sources. Image headers name them, so without a policy a client with
//! write access to a header could make the programs of others read any file.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files that a client may read for images: those below a folder, and those that its program has named.
#[derive(Debug, Default)]
pub(crate) struct SourceFilesPolicy {
    folder: Option<PathBuf>,
    named: Mutex<BTreeSet<PathBuf>>,
}

#[derive(Debug)]
pub(crate) enum SourceFileError {
    NotAllowed,
    Io(io::Error),
}

impl SourceFilesPolicy {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, named: Mutex::default() }
    }

    /// Allows files that the program itself named as sources.
    pub(crate) fn allow<'a>(&self, files: impl IntoIterator<Item = &'a Path>) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.extend(files.into_iter().map(Path::to_owned));
    }

    /// Opens a file or a block device for reading. May block on the disk.
    pub(crate) fn open(&self, path: &Path) -> Result<File, SourceFileError> {
        let is_named = self.named.lock().unwrap_or_else(PoisonError::into_inner).contains(path);
        let file = match &self.folder {
            _ if is_named => rustix::fs::open(path, READ, Mode::empty()).map_err(io::Error::from)?,
            Some(folder) => open_below(folder, path)?,
            None => return Err(SourceFileError::NotAllowed),
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file).map_err(io::Error::from)?.st_mode);
        match kind {
            FileType::RegularFile | FileType::BlockDevice => Ok(file.into()),
            _ => Err(SourceFileError::Io(io::Error::other("neither a file nor a block device"))),
        }
    }
}

/// Non-blocking, so that opening a pipe or a terminal cannot hang.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens a file below the folder; the kernel rejects links and ".." that lead out of it.
fn open_below(folder: &Path, path: &Path) -> Result<OwnedFd, SourceFileError> {
    let (folder, path) = (std::path::absolute(folder)?, std::path::absolute(path)?);
    let below = path.strip_prefix(&folder).map_err(|_| SourceFileError::NotAllowed)?;
    let folder = rustix::fs::open(&folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(io::Error::from)?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(folder, below, READ, Mode::empty(), within).map_err(|error| match error {
        rustix::io::Errno::XDEV => SourceFileError::NotAllowed,
        error => SourceFileError::Io(error.into()),
    })
}

impl From<io::Error> for SourceFileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn is_allowed(policy: &SourceFilesPolicy, path: &Path) -> bool {
        match policy.open(path) {
            Ok(_) => true,
            Err(SourceFileError::NotAllowed) => false,
            Err(SourceFileError::Io(error)) => panic!("{}: {error}", path.display()),
        }
    }

    #[test]
    fn names_cannot_lead_out_of_the_folder() {
        let place = tempfile::tempdir().unwrap();
        let (folder, secret) = (place.path().join("images"), place.path().join("secret"));
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(&secret, "secret").unwrap();
        fs::write(folder.join("deep/disk"), "disk").unwrap();
        symlink("deep/disk", folder.join("link")).unwrap();
        symlink("../secret", folder.join("out")).unwrap();
        symlink(&secret, folder.join("absolute")).unwrap();
        symlink(place.path(), folder.join("up")).unwrap();
        let policy = SourceFilesPolicy::new(Some(folder.clone()));
        for (name, is_right) in [
            ("deep/disk", true),
            ("link", true),
            ("deep/../link", true),
            ("../secret", false),
            ("deep/../../secret", false),
            ("out", false),
            ("absolute", false),
            ("up/secret", false),
        ] {
            assert_eq!(is_allowed(&policy, &folder.join(name)), is_right, "{name}");
        }
        assert!(!is_allowed(&policy, &secret));
        assert!(!is_allowed(&policy, Path::new("/etc/passwd")));
    }

    #[test]
    fn without_a_folder_only_named_files_are_read() {
        let place = tempfile::tempdir().unwrap();
        let (named, other) = (place.path().join("named"), place.path().join("other"));
        fs::write(&named, "named").unwrap();
        fs::write(&other, "other").unwrap();
        let policy = SourceFilesPolicy::default();
        assert!(!is_allowed(&policy, &named));
        policy.allow([named.as_path()]);
        assert!(is_allowed(&policy, &named));
        assert!(!is_allowed(&policy, &other));
    }

    #[test]
    fn special_files_are_refused_at_once() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let policy = SourceFilesPolicy::new(Some(place.path().to_owned()));
        for path in [pipe.as_path(), place.path()] {
            assert!(matches!(policy.open(path), Err(SourceFileError::Io(_))), "{}", path.display());
        }
        policy.allow([Path::new("/dev/zero")]);
        assert!(matches!(policy.open(Path::new("/dev/zero")), Err(SourceFileError::Io(_))));
    }
}
