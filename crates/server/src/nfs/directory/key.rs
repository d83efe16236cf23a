//! The key that handles are signed with.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Bytes of a key.
pub(crate) const KEY_LEN: usize = 32;

/// A key that nobody has.
pub(crate) fn random() -> io::Result<[u8; KEY_LEN]> {
    let mut key = [0; KEY_LEN];
    getrandom::fill(&mut key)?;
    Ok(key)
}

/// The key in a file that nobody but its owner may read and that is not in `export`. If there is no such file, one is
/// made, with a random key in it.
pub(crate) fn keep(path: &Path, export: &Path) -> io::Result<[u8; KEY_LEN]> {
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    if path.canonicalize()?.starts_with(export.canonicalize()?) {
        if made.is_ok() {
            fs::remove_file(path)?;
        }
        return Err(invalid("clients would read it: it must be outside of the directory that is served"));
    }
    match made {
        Ok(mut file) => {
            file.write_all(&random()?)?;
            file.sync_all()?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let file = File::open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(invalid("others may read or write it: chmod 600"));
    }
    let mut bytes = Vec::new();
    file.take(KEY_LEN as u64 + 1).read_to_end(&mut bytes)?;
    bytes.try_into().map_err(|_| invalid("it is no key, which has 32 bytes: remove it, and another is made"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, export) = (folder.path().join("key"), folder.path().join("export"));
        fs::create_dir(&export).unwrap();
        let key = keep(&path, &export).unwrap();
        assert_ne!(key, [0; KEY_LEN]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(keep(&path, &export).unwrap(), key);
        assert_ne!(keep(&folder.path().join("other"), &export).unwrap(), key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
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
    }
}
