//! A file system, as the programs use it.

use super::caller::Caller;
use onego_buf::SegmentMut;
use onego_nfs::mount::MountStatus;
use onego_nfs::rpc::Procedure;
use onego_nfs::v3::{self, Handle};
use onego_wire::Time;

/// What a procedure returns.
pub type Results<P> = <P as Procedure>::Results;

/// The caller and the time of a call.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// The time of the call.
    pub now: Time,
}

/// A file system as NFS version 3 sees it: a method for each procedure (RFC 1813, section 3.3), which carries the call
/// out as a whole before it returns.
///
/// Before that, arguments are only decoded, and changes of a read-only export are refused. All other checks are up to the
/// file system.
pub trait FileSystem: Send {
    /// The handle of a directory, by its path from the root.
    fn mount(&mut self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus>;

    /// Memory for `len` bytes of data of a WRITE. `None`: the file system copies them anyway.
    fn place(&mut self, len: usize) -> Option<SegmentMut>;

    /// Returns the attributes of a file.
    fn getattr(&mut self, cx: Context<'_>, file: Handle) -> Results<v3::Getattr>;

    /// Sets attributes of a file.
    fn setattr(&mut self, cx: Context<'_>, args: v3::SetattrArgs) -> Results<v3::Setattr>;

    /// Finds a name in a directory.
    fn lookup(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Lookup>;

    /// Returns what the caller may do.
    fn access(&mut self, cx: Context<'_>, args: v3::AccessArgs) -> Results<v3::Access>;

    /// Reads a symbolic link.
    fn readlink(&mut self, cx: Context<'_>, link: Handle) -> Results<v3::Readlink>;

    /// Reads from a file.
    fn read(&mut self, cx: Context<'_>, args: v3::ReadArgs) -> Results<v3::Read>;

    /// Writes to a file.
    fn write(&mut self, cx: Context<'_>, args: v3::WriteArgs) -> Results<v3::Write>;

    /// Makes a regular file.
    fn create(&mut self, cx: Context<'_>, args: v3::CreateArgs) -> Results<v3::Create>;

    /// Makes a directory.
    fn mkdir(&mut self, cx: Context<'_>, args: v3::MkdirArgs) -> Results<v3::Mkdir>;

    /// Makes a symbolic link.
    fn symlink(&mut self, cx: Context<'_>, args: v3::SymlinkArgs) -> Results<v3::Symlink>;

    /// Makes a device, a socket or a named pipe.
    fn mknod(&mut self, cx: Context<'_>, args: v3::MknodArgs) -> Results<v3::Mknod>;

    /// Removes a file that is no directory.
    fn remove(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Remove>;

    /// Removes an empty directory.
    fn rmdir(&mut self, cx: Context<'_>, place: v3::Place) -> Results<v3::Rmdir>;

    /// Moves a file to another name.
    fn rename(&mut self, cx: Context<'_>, args: v3::RenameArgs) -> Results<v3::Rename>;

    /// Gives a file one more name.
    fn link(&mut self, cx: Context<'_>, args: v3::LinkArgs) -> Results<v3::Link>;

    /// Lists names of a directory.
    fn readdir(&mut self, cx: Context<'_>, args: v3::ReaddirArgs) -> Results<v3::Readdir>;

    /// Lists names of a directory, with attributes and handles.
    fn readdirplus(&mut self, cx: Context<'_>, args: v3::ReaddirplusArgs) -> Results<v3::Readdirplus>;

    /// Returns how full the file system is.
    fn fsstat(&mut self, cx: Context<'_>, root: Handle) -> Results<v3::Fsstat>;

    /// Returns the limits and properties of the file system.
    fn fsinfo(&mut self, cx: Context<'_>, root: Handle) -> Results<v3::Fsinfo>;

    /// Returns the values of pathconf() of POSIX.
    fn pathconf(&mut self, cx: Context<'_>, file: Handle) -> Results<v3::Pathconf>;

    /// Makes the data of earlier WRITEs durable.
    fn commit(&mut self, cx: Context<'_>, args: v3::CommitArgs) -> Results<v3::Commit>;
}
