use onego_nfs::v3::{Attributes, FileType, Handle};

/// A file found by a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// NFS file handle.
    pub handle: Handle,
    /// Attributes at the time of the lookup.
    pub attributes: Attributes,
}

impl Found {
    /// Returns whether the file is a directory.
    pub fn is_dir(&self) -> bool {
        self.attributes.file_type == FileType::Directory
    }
}
