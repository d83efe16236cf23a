//! What a backend does: operations on inodes, as an operating system has them.

use crate::file_system::Context;
use onego_buf::{List, Pool};
use onego_nfs::v3::{
    Attributes, Before, Device, FileType, FsstatOk, Handle, SetAttributes, Stability, Status, Verifier,
};

/// A permission to use a file, as the last digit of a mode has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Read = 4,
    Write = 2,
    /// Of a directory: to look up names in it.
    Execute = 1,
}

/// What a regular file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// What kind of file is made.
#[derive(Debug, Clone)]
pub(crate) enum NewKind {
    Regular,
    Directory,
    /// A symbolic link with this text.
    Symlink(Vec<u8>),
    /// A device, a socket or a FIFO.
    Special(FileType, Device),
}

/// A file to be made.
#[derive(Debug, Clone)]
pub(crate) struct New {
    pub(crate) kind: NewKind,
    /// Permission bits.
    pub(crate) mode: u32,
    /// Its other attributes: the owners, the times, and the size of a regular file.
    pub(crate) set: SetAttributes,
}

/// What an entry is removed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    File,
    Directory,
}

/// A name in a directory.
pub(crate) type Entry<'a, I> = (&'a I, &'a [u8]);

/// An entry of a listing.
pub(crate) struct Listed<'a, I> {
    /// The position behind it.
    pub(crate) cookie: u64,
    pub(crate) name: &'a [u8],
    pub(crate) fileid: u64,
    /// The inode, if the backend has it at hand and the caller may look it up.
    pub(crate) inode: Option<I>,
}

/// The inodes of a file system. Every call begins with [`root`](Self::root) or [`find`](Self::find).
///
/// In all that follows the backend decides what the caller may do, and answers as the system calls of POSIX do. It gets
/// only names and values that a file can have, and directories where it expects them.
pub(crate) trait Inodes: Send {
    /// An inode that this call has found.
    type Inode: Clone;
    /// Most bytes of a handle.
    const HANDLE_LEN: usize;

    /// Where memory for large payloads comes from.
    fn pool(&self) -> &Pool;

    /// The root directory.
    fn root(&self, cx: Context<'_>) -> Result<Self::Inode, Status>;

    /// The inode that a handle names.
    fn find(&self, cx: Context<'_>, handle: &Handle) -> Result<Self::Inode, Status>;

    /// The handle of an inode.
    fn handle(&self, inode: &Self::Inode) -> Handle;

    /// The type of a file.
    fn file_type(&self, inode: &Self::Inode) -> FileType;

    /// The attributes that this call knows. They need not show what it has changed.
    fn attributes(&self, inode: &Self::Inode) -> Attributes;

    /// The attributes before a change. `None`: nobody can tell them, because others may change the file meanwhile.
    fn before(&self, inode: &Self::Inode) -> Option<Before>;

    /// The attributes at this moment, after a change.
    fn after(&self, inode: &Self::Inode) -> Option<Attributes>;

    /// Is the caller the owner, or exempt from permissions?
    fn owns(&self, cx: Context<'_>, inode: &Self::Inode) -> bool;

    /// May the caller use the file in that way?
    fn permits(&self, cx: Context<'_>, inode: &Self::Inode, wanted: Use) -> bool;

    /// How full the file system is. The attributes are left out.
    fn space(&self, inode: &Self::Inode) -> Result<FsstatOk, Status>;
}

/// What is in files: bytes and attributes.
pub(crate) trait Contents: Inodes {
    /// An open regular file.
    type Data;

    /// The verifier of writes. It changes with each start that may have lost unstable writes, and when a sync fails.
    fn write_verifier(&self) -> Verifier;

    /// The size of a regular file in bytes.
    fn size(&self, inode: &Self::Inode) -> u64;

    /// Sets attributes, durably. Only regular files get a size.
    fn set_attributes(
        &mut self,
        cx: Context<'_>,
        inode: &Self::Inode,
        set: &SetAttributes,
    ) -> Result<(), Status>;

    /// Opens a regular file.
    fn open_file(
        &mut self,
        cx: Context<'_>,
        file: &Self::Inode,
        access: Access,
    ) -> Result<Self::Data, Status>;

    /// Reads `len` bytes, at least one. Fewer: the file has been cut, and ends there.
    fn read_at(
        &mut self,
        cx: Context<'_>,
        file: (&Self::Inode, &Self::Data),
        offset: u64,
        len: usize,
    ) -> Result<List, Status>;

    /// Writes bytes, and returns how many it has written.
    fn write_at(
        &mut self,
        cx: Context<'_>,
        file: (&Self::Inode, &Self::Data),
        offset: u64,
        data: List,
        stable: Stability,
    ) -> Result<u32, Status>;

    /// Makes durable what was written to a regular file, or the names in a directory.
    fn sync(&mut self, cx: Context<'_>, inode: &Self::Inode) -> Result<(), Status>;
}

/// The names in directories. A change is durable when its method returns, unless the file system ends with its server.
pub(crate) trait Names: Inodes {
    /// The verifier of cookies. It changes when earlier cookies become invalid.
    fn cookie_verifier(&self) -> Verifier;

    /// The directory above a directory. The root is above itself.
    fn parent(&self, cx: Context<'_>, dir: &Self::Inode) -> Result<Self::Inode, Status>;

    /// The inode of a name, which is neither "." nor "..".
    fn entry(&self, cx: Context<'_>, dir: &Self::Inode, name: &[u8]) -> Result<Self::Inode, Status>;

    /// Gives the entries behind a cookie to `take`, until it returns `false` or there are no more.
    fn list(
        &mut self,
        cx: Context<'_>,
        dir: &Self::Inode,
        cookie: u64,
        take: impl FnMut(&Self, Listed<'_, Self::Inode>) -> bool,
    ) -> Result<(), Status>;

    /// The text of a symbolic link.
    fn target(&self, link: &Self::Inode) -> Result<Vec<u8>, Status>;

    /// Makes a file of any kind, under a name that nothing has.
    fn make(
        &mut self,
        cx: Context<'_>,
        dir: &Self::Inode,
        name: &[u8],
        new: New,
    ) -> Result<Self::Inode, Status>;

    /// Gives a file, which is no directory, one more name.
    fn add_name(
        &mut self,
        cx: Context<'_>,
        file: &Self::Inode,
        link: Entry<'_, Self::Inode>,
    ) -> Result<(), Status>;

    /// Removes the name of a file.
    fn remove_name(
        &mut self,
        cx: Context<'_>,
        entry: Entry<'_, Self::Inode>,
        file: &Self::Inode,
        removal: Removal,
    ) -> Result<(), Status>;

    /// Moves a file to another name, and replaces the `target` that has it.
    fn move_name(
        &mut self,
        cx: Context<'_>,
        from: Entry<'_, Self::Inode>,
        to: Entry<'_, Self::Inode>,
        file: &Self::Inode,
        target: Option<&Self::Inode>,
    ) -> Result<(), Status>;

    /// Makes the names in a directory durable, and `file`. A name may be that of another call, which is not answered yet.
    fn sync_name(
        &mut self,
        cx: Context<'_>,
        dir: &Self::Inode,
        file: Option<&Self::Inode>,
    ) -> Result<(), Status>;
}
