//! What is known of a file.

use onego_nfs::v3::{Attributes, FileType, Handle};

/// A file that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Names it to the server.
    pub handle: Handle,
    /// What is known of it.
    pub attributes: Attributes,
}

impl Found {
    /// Is it a directory?
    pub fn is_dir(&self) -> bool {
        self.attributes.file_type == FileType::Directory
    }
}
