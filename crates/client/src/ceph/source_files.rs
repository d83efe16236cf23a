//! Which files of this machine may show through images. The header of an image names them, and a client that may write that header could
//! otherwise have the programs of others read any file for it.

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a client may read for images: the files below a folder, and those that its own program has named.
#[derive(Debug, Default)]
pub(crate) struct SourceFilesPolicy {
    folder: Option<PathBuf>,
    named: Mutex<BTreeSet<PathBuf>>,
}

/// Why a file does not show through an image.
#[derive(Debug)]
pub(crate) enum SourceFileError {
    /// It is not below the folder, and this program has not named it.
    NotAllowed,
    Io(io::Error),
}

impl SourceFilesPolicy {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, named: Mutex::default() }
    }

    /// The program itself names files that it wants to show through an image.
    pub(crate) fn allow<'a>(&self, files: impl IntoIterator<Item = &'a Path>) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.extend(files.into_iter().map(Path::to_owned));
    }

    /// Opens a file or a block device to be read. It may wait for the disk.
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
            _ => Err(SourceFileError::Io(io::Error::other("it is neither a file nor a block device"))),
        }
    }
}

/// A pipe or a terminal must not keep the one that opens it.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// No link leads out of the folder, and neither do names with "..": the kernel sees to that.
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
    fn no_name_leads_out_of_the_folder() {
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
    fn without_a_folder_only_files_that_the_program_named_are_read() {
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
    fn what_is_no_file_is_refused_at_once() {
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
