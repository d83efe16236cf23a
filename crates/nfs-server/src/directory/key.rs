//! The key that handles are signed with.

use onego_service::private_file::{self, refused};
use std::io::{self, Read as _};
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes of a key.
pub(crate) const KEY_LEN: usize = 32;

/// A key, which is wiped when it is dropped.
pub(crate) type HandleKey = Zeroizing<[u8; KEY_LEN]>;

/// A key that nobody has.
pub(crate) fn random() -> io::Result<HandleKey> {
    let mut key = HandleKey::default();
    getrandom::fill(&mut *key)?;
    Ok(key)
}

/// The key in a file that belongs to this process's user, that nobody else may read, and that is not in `export`. If there
/// is no such file, one is made, with a random key in it.
pub(crate) fn keep(path: &Path, export: &Path) -> io::Result<HandleKey> {
    // A bare name lies in the current directory.
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let export = export.canonicalize()?;
    let outside = |path: &Path| match path.starts_with(&export) {
        true => Err(refused("clients would read it: it must be outside of the directory that is served")),
        false => Ok(()),
    };
    outside(&directory.canonicalize()?)?;
    if let Err(error) = std::fs::symlink_metadata(path) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        match private_file::create(path, &*random()?) {
            // Another server may have made it meanwhile.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // A link of this user's may lead to the key.
    let path = path.canonicalize()?;
    outside(&path)?;
    read(&path)
}

fn read(path: &Path) -> io::Result<HandleKey> {
    let wrong = || refused("it is no key, which has 32 bytes: remove it, and another is made");
    let mut file = private_file::open(path)?;
    let mut key = HandleKey::default();
    match file.read_exact(&mut *key) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(wrong()),
        other => other?,
    }
    if file.read(&mut [0])? > 0 { Err(wrong()) } else { Ok(key) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_key_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, export) = (folder.path().join("key"), folder.path().join("export"));
        fs::create_dir(&export).unwrap();
        let key = keep(&path, &export).unwrap();
        assert_ne!(*key, [0; KEY_LEN]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(keep(&path, &export).unwrap(), key);
        assert_ne!(keep(&folder.path().join("other"), &export).unwrap(), key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, export) = (folder.path().join("key"), folder.path().join("export"));
        fs::create_dir(&export).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let said = keep(&path, &export).unwrap_err().to_string();
        assert!(said.contains("no regular file"), "{said}");
    }

    #[test]
    fn what_others_could_read_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let (path, export) = (folder.path().join("key"), folder.path().join("export"));
        fs::create_dir_all(export.join("inner")).unwrap();
        let refused = |path: &Path, word: &str| {
            let said = keep(path, &export).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        };
        refused(&export.join("key"), "outside");
        refused(&export.join("inner/key"), "outside");
        assert_eq!(fs::read_dir(&export).unwrap().count(), 1);
        keep(&path, &export).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        refused(&path, "chmod");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, [7; KEY_LEN + 1]).unwrap();
        refused(&path, "no key");
        refused(&folder.path().join("nowhere/key"), "No such file");
        refused(&path.join("below"), "Not a directory");
        let dangling = folder.path().join("dangling");
        symlink(folder.path().join("not-there"), &dangling).unwrap();
        refused(&dangling, "No such file");
        let inward = folder.path().join("inward");
        fs::write(export.join("theirs"), [7; KEY_LEN]).unwrap();
        symlink(export.join("theirs"), &inward).unwrap();
        refused(&inward, "outside");
    }
}
