//! Open files and block devices.

use crate::container::{Backing, Container};
use crate::error::OpenError;
use crate::flushes::Flushes;
use crate::format::FileFormat;
use onego_block::Geometry;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a read or write in bytes, as NBD clients expect it.
const MAX_IO: u64 = 32 << 20;

/// Preferred request size, and granularity of holes, in bytes: the block size of nearly all file systems.
const BLOCK: u32 = 4096;

/// An open and locked file or block device. Clones share it, across threads; dropping the last one unlocks it.
///
/// A disk opened for writing excludes all other processes that open it as a disk; a read-only one excludes writers. The
/// lock is `flock`, and for block devices also the kernel's exclusive claim, which mounts and volume managers hold as
/// well.
#[derive(Debug, Clone)]
pub struct Disk(Arc<Opened>);

#[derive(Debug)]
pub(crate) struct Opened {
    path: PathBuf,
    pub(crate) file: File,
    /// Bypasses the page cache; `None` if the file system does not support that.
    direct: Option<Direct>,
    geometry: Geometry,
    pub(crate) is_block_device: bool,
    /// The disk in the file; `None`: the file's bytes are the disk.
    pub(crate) container: Option<Container>,
    pub(crate) flushes: Flushes,
}

#[derive(Debug)]
struct Direct {
    file: File,
    offset_align: u64,
    memory_align: usize,
}

impl Disk {
    /// Opens a file or block device. Other kinds of files are rejected without opening them, which could have side
    /// effects.
    pub fn open(path: &Path, read_only: bool) -> Result<Self, OpenError> {
        let io = |error: Errno| OpenError::Io { path: path.to_owned(), source: error.into() };
        // `O_PATH` permits no I/O, and opening a pipe or a device this way has no side effects.
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).map_err(io)?.st_mode);
        let is_block_device = match kind {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            _ => return Err(OpenError::Kind(path.to_owned())),
        };
        let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let claim = if is_block_device && !read_only { OFlags::EXCL } else { OFlags::empty() };
        // Opens the same file, even if the path has changed meanwhile.
        let file = reopen(&found, access | claim).map_err(|error| match error {
            Errno::BUSY => OpenError::Busy(path.to_owned()),
            error => io(error),
        })?;
        lock(&file, read_only, path)?;
        let sector = if is_block_device { rustix::fs::ioctl_blksszget(&file).map_err(io)? } else { 1 };
        let size = (&file).seek(SeekFrom::End(0));
        let size = size.map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self::new(path, file, access, size, sector, is_block_device))
    }

    /// Wraps a file that the caller has opened for reading and writing, and locked, as a disk of `size` bytes. The file
    /// may be shorter: writes past its end extend it, and reads past its end fail. `path` is for error messages.
    pub fn growing(path: &Path, file: File, size: u64) -> Self {
        Self::new(path, file, OFlags::RDWR, size, 1, false)
    }

    /// The disk in a qcow2 file, for reading. `path` is the name of the file that this disk is.
    pub fn into_container(self, backing: Backing) -> Result<Self, OpenError> {
        let Opened { path, file, .. } = &*self.0;
        let failed = |source| OpenError::Io { path: path.clone(), source };
        let container = Container::open(file.try_clone().map_err(failed)?, path, backing)?;
        let file = file.try_clone().map_err(failed)?;
        Ok(Self::with_container(path, file, OFlags::RDONLY, container))
    }

    /// A new disk of `size` bytes in a qcow2 file, which the caller has opened for reading and writing, and locked. The file is
    /// empty.
    pub fn new_container(path: &Path, file: File, size: u64) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        let container = Container::create(file.try_clone().map_err(failed)?, path, size)?;
        Ok(Self::with_container(path, file, OFlags::RDWR, container))
    }

    fn with_container(path: &Path, file: File, access: OFlags, container: Container) -> Self {
        let mut geometry = Self::geometry_of(container.size(), access, 1);
        geometry.trim_granularity = None;
        let (path, flushes) = (path.to_owned(), Flushes::new(None));
        let container = Some(container);
        Self(Arc::new(Opened {
            path,
            file,
            direct: None,
            geometry,
            is_block_device: false,
            container,
            flushes,
        }))
    }

    fn geometry_of(size: u64, access: OFlags, sector: u32) -> Geometry {
        let mut geometry = Geometry::new(size);
        geometry.block = sector;
        geometry.preferred = BLOCK.max(sector);
        geometry.max_io = MAX_IO;
        geometry.read_only = access == OFlags::RDONLY;
        geometry.volatile_cache = true;
        geometry.trim_granularity = Some(BLOCK.max(sector));
        geometry
    }

    fn new(path: &Path, file: File, access: OFlags, size: u64, sector: u32, is_block_device: bool) -> Self {
        let direct = Direct::open(&file, access, sector);
        let geometry = Self::geometry_of(size, access, sector);
        tracing::debug!(path = %path.display(), size, direct = direct.is_some(), "opened a disk");
        let (path, flushes) = (path.to_owned(), Flushes::new(reopen(&file, access).ok()));
        Self(Arc::new(Opened { path, file, direct, geometry, is_block_device, container: None, flushes }))
    }

    /// Returns the geometry of the disk.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// Returns the path by which the disk was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the metadata of the open file, even if the path has changed.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.file.metadata()
    }

    /// Returns the format of a file that contains a disk in another form. Block devices have none.
    pub fn format(&self) -> io::Result<Option<FileFormat>> {
        match self.0.is_block_device {
            true => Ok(None),
            false => FileFormat::detect(&self.0.file),
        }
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.0
    }
}

impl Opened {
    /// Returns the file for direct I/O if the range is suitably aligned.
    pub(crate) fn direct(&self, offset: u64, length: u64) -> Option<&File> {
        let direct = self.direct.as_ref()?;
        (length > 0 && (offset | length).is_multiple_of(direct.offset_align)).then_some(&direct.file)
    }

    /// Returns whether direct I/O supports the address and length of `bytes`.
    pub(crate) fn takes_memory(&self, bytes: &[u8]) -> bool {
        let place = bytes.as_ptr() as usize;
        self.direct.as_ref().is_some_and(|direct| {
            place.is_multiple_of(direct.memory_align)
                && (bytes.len() as u64).is_multiple_of(direct.offset_align)
        })
    }

    pub(crate) fn failed(&self, error: Errno) -> onego_block::Error {
        let text = format!("{}: {}", self.path.display(), io::Error::from(error));
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => onego_block::Error::NoSpace(text),
            Errno::PERM | Errno::ACCESS | Errno::ROFS => onego_block::Error::NotPermitted(text),
            _ => onego_block::Error::Failed(text),
        }
    }

    /// An error of the disk in a qcow2 file.
    pub(crate) fn failed_in(&self, error: &io::Error) -> onego_block::Error {
        match error.raw_os_error() {
            Some(number) => self.failed(Errno::from_raw_os_error(number)),
            None => onego_block::Error::Failed(format!("{} (qcow2): {error}", self.path.display())),
        }
    }

    /// Makes all earlier writes durable.
    pub(crate) fn flush(&self) -> Result<(), onego_block::Error> {
        self.flushes.flush(&self.file).map_err(|error| self.flush_failed(error))
    }

    /// Converts the result of a write. A failed FUA write counts as a failed flush: the device may have lost other
    /// clients' writes, too.
    pub(crate) fn written(&self, result: Result<(), Errno>, fua: bool) -> Result<(), onego_block::Error> {
        if fua {
            self.flushes.check().map_err(|error| self.flush_failed(error))?;
        }
        result.map_err(|error| {
            if fua && error == Errno::IO {
                self.flushes.note_failure(error);
            }
            self.failed(error)
        })
    }

    fn flush_failed(&self, error: Errno) -> onego_block::Error {
        onego_block::Error::Failed(format!(
            "{}: a flush failed ({}), and earlier writes may be lost: check the data, and reopen the disk",
            self.path.display(),
            io::Error::from(error)
        ))
    }

    pub(crate) fn became_shorter(&self) -> onego_block::Error {
        onego_block::Error::Failed(format!("{} has become shorter since it was opened", self.path.display()))
    }
}

impl Direct {
    /// Reopens a file for direct I/O. Returns `None` if the file system does not support it or does not report its
    /// alignment.
    fn open(file: &File, access: OFlags, sector: u32) -> Option<Self> {
        let about = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        let (offset_align, memory_align) = alignment(&about, sector)?;
        let file = reopen(file, access | OFlags::DIRECT).ok()?;
        Some(Self { file, offset_align, memory_align })
    }
}

/// Returns the alignments of file offsets and memory for direct I/O. Kernels before 6.1 do not report them; a value
/// that suits all disks is assumed then.
fn alignment(about: &Statx, sector: u32) -> Option<(u64, usize)> {
    if StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::DIOALIGN) {
        // Zeros mean that direct I/O is not supported.
        let (offset, memory) = (about.stx_dio_offset_align, about.stx_dio_mem_align);
        return (offset > 0 && memory > 0).then_some((offset.max(sector).into(), memory as usize));
    }
    Some((BLOCK.max(sector).into(), BLOCK as usize))
}

fn reopen(file: impl std::os::fd::AsFd, flags: OFlags) -> rustix::io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).map(File::from)
}

fn lock(file: &File, read_only: bool, path: &Path) -> Result<(), OpenError> {
    let locked = if read_only { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::Busy(path.to_owned())),
        // The file system does not support locks.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the disk cannot be locked");
            Ok(())
        }
    }
}
