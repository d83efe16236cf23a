//! A file of any type: its attributes, and what it has in it.

use super::directory::Directory;
use super::permissions::{InodePermissions, without_privileges};
use onego_buf::extents::Extents;
use onego_nfs::v3::{Attributes, Device, FileType, Status, Time};

/// Bytes that a node is assumed to cost beside its content: its place in the table, and the allocator's share.
pub(super) const NODE_BYTES: u64 = 256;

/// The size of every directory: one block, as small directories of other file systems have.
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
    /// A device, a socket or a FIFO.
    Special(FileType, Device),
}

/// A regular file.
#[derive(Default)]
pub(super) struct Regular {
    pub(super) data: Extents,
    pub(super) size: u64,
}

impl Content {
    #[inline]
    pub(super) fn file_type(&self) -> FileType {
        match self {
            Self::Regular(_) => FileType::Regular,
            Self::Directory(_) => FileType::Directory,
            Self::Symlink(_) => FileType::Symlink,
            Self::Special(file_type, _) => *file_type,
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Regular(file) => file.data.pinned(),
            Self::Directory(directory) => directory.bytes(),
            Self::Symlink(path) => path.len() as u64,
            Self::Special(..) => 0,
        }
    }
}

impl Node {
    #[inline]
    pub(super) fn attributes(&self, fsid: u64) -> Attributes {
        let (size, used, device) = match &self.content {
            Content::Regular(file) => (file.size, file.data.pinned(), Device::default()),
            Content::Directory(_) => (DIRECTORY_SIZE, DIRECTORY_SIZE, Device::default()),
            Content::Symlink(path) => (path.len() as u64, 0, Device::default()),
            Content::Special(_, device) => (0, 0, *device),
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

    #[inline]
    pub(super) fn permissions(&self) -> InodePermissions {
        let is_dir = matches!(self.content, Content::Directory(_));
        InodePermissions { mode: self.mode, uid: self.uid, gid: self.gid, is_dir }
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

    #[inline]
    pub(super) fn regular(&self) -> Result<&Regular, Status> {
        match &self.content {
            Content::Regular(file) => Ok(file),
            _ => Err(Status::Inval),
        }
    }

    #[inline]
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
