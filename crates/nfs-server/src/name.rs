//! Names of files.

use onego_nfs::v3::Status;

/// Most bytes of a name.
pub(super) const NAME_MAX: usize = 255;

/// Is it a name that every directory has?
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Can a file have that name (RFC 1813, section 3.2)?
pub(super) fn check_name(name: &[u8]) -> Result<(), Status> {
    if name.is_empty() {
        Err(Status::Access)
    } else if name.len() > NAME_MAX {
        Err(Status::Nametoolong)
    } else if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        Err(Status::Inval)
    } else {
        Ok(())
    }
}
