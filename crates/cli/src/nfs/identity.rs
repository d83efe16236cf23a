//! Whether two names lead to one file.

use onego::nfs::Attributes;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// What this machine and servers say alike of a file, by whatever name or server it is reached. Two files differ in it: the
/// numbers of files repeat between file systems, but not together with the nanoseconds of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    number: u64,
    size: u64,
    modified: (u32, u32),
    changed: (u32, u32),
}

impl Identity {
    pub(super) fn there(found: &Attributes) -> Self {
        Self {
            number: found.fileid,
            size: found.size,
            modified: (found.mtime.seconds, found.mtime.nanoseconds),
            changed: (found.ctime.seconds, found.ctime.nanoseconds),
        }
    }

    pub(super) fn here(about: &Metadata) -> Self {
        // NFS has 32 bits of seconds.
        Self {
            number: about.ino(),
            size: about.len(),
            modified: (about.mtime() as u32, about.mtime_nsec() as u32),
            changed: (about.ctime() as u32, about.ctime_nsec() as u32),
        }
    }
}
