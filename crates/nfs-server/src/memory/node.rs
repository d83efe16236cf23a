//! A file of any type: its attributes, and what it has in it.

use super::directory::Directory;
use crate::rights::{Guarded, without_privileges};
use onego_nfs::v3::{Attributes, Device, FileType, Status, Time};
use onego_service::extents::Extents;

/// Where a node is in the table of all.
pub(super) type Id = usize;

/// Bytes that a node is taken to cost beside its content: its place in the table, and the allocator's share.
pub(super) const NODE_BYTES: u64 = 256;

/// Bytes that a directory says to have: one block, as small directories of other file systems have.
const DIRECTORY_SIZE: u64 = 4096;

/// A file of any type.
pub(super) struct Node {
    /// Its number, which no other file ever has.
    pub(super) fileid: u64,
    pub(super) mode: u32,
    /// Hard links; of a directory also its own "." and the ".." of those in it.
    pub(super) links: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime: Time,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) content: Content,
}

/// What a file has in it.
pub(super) enum Content {
    Regular(Regular),
    Directory(Directory),
    /// A symbolic link, and where it leads.
    Symlink(Box<[u8]>),
    /// A device of this type.
    Device(FileType, Device),
    Socket,
    Fifo,
}

/// A regular file.
#[derive(Default)]
pub(super) struct Regular {
    pub(super) data: Extents,
    pub(super) size: u64,
    /// What came with the exclusive CREATE that has made it, until its attributes are set: so the same call is known if
    /// it comes again (RFC 1813, section 3.3.8).
    pub(super) verifier: Option<[u8; 8]>,
}

impl Content {
    pub(super) fn file_type(&self) -> FileType {
        match self {
            Self::Regular(_) => FileType::Regular,
            Self::Directory(_) => FileType::Directory,
            Self::Symlink(_) => FileType::Symlink,
            Self::Device(file_type, _) => *file_type,
            Self::Socket => FileType::Socket,
            Self::Fifo => FileType::Fifo,
        }
    }

    /// The permission bits of a file that is made without any.
    pub(super) fn default_mode(&self) -> u32 {
        match self {
            Self::Directory(_) => 0o755,
            Self::Symlink(_) => 0o777,
            _ => 0o644,
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Regular(file) => file.data.pinned(),
            Self::Directory(directory) => directory.bytes(),
            Self::Symlink(path) => path.len() as u64,
            Self::Device(..) | Self::Socket | Self::Fifo => 0,
        }
    }
}

impl Node {
    pub(super) fn attributes(&self, fsid: u64) -> Attributes {
        let (size, used, device) = match &self.content {
            Content::Regular(file) => (file.size, file.data.pinned(), Device::default()),
            Content::Directory(_) => (DIRECTORY_SIZE, DIRECTORY_SIZE, Device::default()),
            Content::Symlink(path) => (path.len() as u64, 0, Device::default()),
            Content::Device(_, device) => (0, 0, *device),
            Content::Socket | Content::Fifo => (0, 0, Device::default()),
        };
        Attributes {
            file_type: self.content.file_type(),
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size,
            used,
            device,
            fsid,
            fileid: self.fileid,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    pub(super) fn guarded(&self) -> Guarded {
        let is_dir = matches!(self.content, Content::Directory(_));
        Guarded { mode: self.mode, uid: self.uid, gid: self.gid, is_dir }
    }

    pub(super) fn directory(&self) -> Result<&Directory, Status> {
        match &self.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Status::Notdir),
        }
    }

    pub(super) fn directory_mut(&mut self) -> Result<&mut Directory, Status> {
        match &mut self.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Status::Notdir),
        }
    }

    /// The regular file that it is. The RFC has no other error for READ, WRITE and the size in SETATTR of what is none
    /// (sections 3.3.2, 3.3.6 and 3.3.7).
    pub(super) fn regular(&self) -> Result<&Regular, Status> {
        match &self.content {
            Content::Regular(file) => Ok(file),
            _ => Err(Status::Inval),
        }
    }

    pub(super) fn regular_mut(&mut self) -> Result<&mut Regular, Status> {
        match &mut self.content {
            Content::Regular(file) => Ok(file),
            _ => Err(Status::Inval),
        }
    }

    /// The file has other bytes or names in it than before.
    pub(super) fn modified(&mut self, now: Time) {
        (self.mtime, self.ctime) = (now, now);
    }

    /// See [`without_privileges`]; directories have none.
    pub(super) fn drop_privileges(&mut self) {
        if !matches!(self.content, Content::Directory(_)) {
            self.mode = without_privileges(self.mode);
        }
    }
}
