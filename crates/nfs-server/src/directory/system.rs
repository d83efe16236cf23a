//! System calls, with results in the words of NFS.

use onego_nfs::v3::{Attributes, Device, FileType, Status, Time};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Identifies a file for as long as the file system exists: its number, and its birth time, because numbers are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) ino: u64,
    /// In nanoseconds; 0 where the file system does not know.
    pub(super) born: u64,
}

impl Identity {
    /// The form in handles.
    pub(super) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ino) << 64 | u128::from(self.born)).to_be_bytes()
    }
}

/// What the system says of a file.
#[derive(Debug, Clone)]
pub(super) struct Stat {
    pub(super) identity: Identity,
    pub(super) attributes: Attributes,
}

/// The error of a system call as NFS has it.
pub(super) fn status(error: Errno) -> Status {
    match error {
        Errno::PERM => Status::Perm,
        Errno::NOENT => Status::Noent,
        Errno::NXIO => Status::Nxio,
        // A file of a file system that is mounted below is not served.
        Errno::ACCESS | Errno::XDEV => Status::Access,
        Errno::EXIST => Status::Exist,
        Errno::NODEV => Status::Nodev,
        Errno::NOTDIR => Status::Notdir,
        Errno::ISDIR => Status::Isdir,
        Errno::INVAL => Status::Inval,
        Errno::FBIG => Status::Fbig,
        Errno::NOSPC => Status::Nospc,
        Errno::ROFS => Status::Rofs,
        Errno::MLINK => Status::Mlink,
        Errno::NAMETOOLONG => Status::Nametoolong,
        Errno::NOTEMPTY => Status::Notempty,
        Errno::DQUOT => Status::Dquot,
        Errno::STALE => Status::Stale,
        Errno::OPNOTSUPP => Status::Notsupp,
        // Out of descriptors or memory for a while.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Status::Jukebox,
        _ => Status::Io,
    }
}

/// Opens a name in a directory as a place: whatever it is, it is neither followed nor opened itself.
pub(super) fn open_entry(dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    fs::openat2(dir, name, flags, Mode::empty(), resolve)
}

/// Opens the directory that a directory is in, in the same file system, as a place.
pub(super) fn open_parent(dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat2(dir, c"..", flags, Mode::empty(), ResolveFlags::NO_XDEV)
}

/// The path by which a file that is open as a place is opened anew.
pub(super) fn reopen_path(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The path of an open file at this moment.
pub(super) fn path(fd: &OwnedFd) -> Result<Vec<u8>, Errno> {
    fs::readlink(reopen_path(fd), Vec::new()).map(std::ffi::CString::into_bytes)
}

/// Opens a file anew as a place, however it is open.
pub(super) fn reopen_as_place(fd: &OwnedFd) -> Result<OwnedFd, Errno> {
    fs::open(reopen_path(fd), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a file anew that is open as a place, to be read or written.
pub(super) fn reopen(fd: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::open(reopen_path(fd), flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK, Mode::empty())
}

/// Asks the system about an open file.
pub(super) fn stat(fd: &OwnedFd) -> Result<Stat, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    fs::statx(fd, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, wanted).map(|stat| of(&stat))
}

fn of(stat: &Statx) -> Stat {
    let time = |seconds: i64, nanoseconds| {
        // The protocol's seconds begin in 1970 and end in 2106.
        let seconds = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
        Time { seconds, nanoseconds }
    };
    let born = if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME) {
        (stat.stx_btime.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(stat.stx_btime.tv_nsec)
    } else {
        0
    };
    let attributes = Attributes {
        file_type: file_type(stat.stx_mode.into()),
        mode: u32::from(stat.stx_mode) & 0o7777,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        used: stat.stx_blocks * 512,
        device: Device { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor },
        fsid: u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor),
        fileid: stat.stx_ino,
        atime: time(stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
        mtime: time(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        ctime: time(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
    };
    Stat { identity: Identity { ino: stat.stx_ino, born }, attributes }
}

fn file_type(mode: u32) -> FileType {
    match fs::FileType::from_raw_mode(mode) {
        fs::FileType::Directory => FileType::Directory,
        fs::FileType::Symlink => FileType::Symlink,
        fs::FileType::Fifo => FileType::Fifo,
        fs::FileType::Socket => FileType::Socket,
        fs::FileType::CharacterDevice => FileType::CharacterDevice,
        fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::Regular,
    }
}

/// A borrowed descriptor of the current folder, for calls that are given whole paths.
pub(super) const ANYWHERE: BorrowedFd<'static> = fs::CWD;
