//! A file or block device that is open.

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

/// Most bytes of a read or write: what clients of NBD expect.
const MAX_IO: u64 = 32 << 20;

/// Bytes of a request that costs least, and in which holes are made: a block of nearly every file system.
const BLOCK: u32 = 4096;

/// A file or block device that is open and locked. Clones are the same, also on other threads; the last one unlocks it.
///
/// A disk that is open for writing is locked against every other process that opens it as a disk; one that is only read is
/// locked against those that write. The lock is that of `flock`, and for a block device also the kernel's exclusive claim,
/// which mounts and volume managers have, too.
#[derive(Debug, Clone)]
pub struct Disk(Arc<Opened>);

/// What is open of a disk.
#[derive(Debug)]
pub(crate) struct Opened {
    path: PathBuf,
    /// Through the page cache.
    pub(crate) file: File,
    /// The same, past the page cache; `None`: the file system cannot.
    direct: Option<Direct>,
    geometry: Geometry,
    pub(crate) is_block_device: bool,
    /// The disk in the file; `None`: the file's bytes are the disk.
    pub(crate) container: Option<Container>,
    pub(crate) flushes: Flushes,
}

/// A file that is open for direct I/O, and what of it has to be multiples of what.
#[derive(Debug)]
struct Direct {
    file: File,
    offset_align: u64,
    memory_align: usize,
}

impl Disk {
    /// Opens a file or block device. Nothing else is opened: not even for a moment, where that would have an effect.
    pub fn open(path: &Path, read_only: bool) -> Result<Self, OpenError> {
        let io = |error: Errno| OpenError::Io { path: path.to_owned(), source: error.into() };
        // A handle that can read nothing: to get it has no effect on a pipe or on a device.
        let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(io)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found).map_err(io)?.st_mode);
        let is_block_device = match kind {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            _ => return Err(OpenError::Kind(path.to_owned())),
        };
        let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let claim = if is_block_device && !read_only { OFlags::EXCL } else { OFlags::empty() };
        // The same file, whatever the path leads to meanwhile.
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

    /// A file that the caller has opened for reading and writing, and locked, as a disk of `size` bytes. It may be shorter:
    /// writes past its end make it longer, and reads past its end fail. `path` is for errors.
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
        tracing::debug!(path = %path.display(), size, direct = direct.is_some(), "a disk is open");
        let (path, flushes) = (path.to_owned(), Flushes::new(reopen(&file, access).ok()));
        Self(Arc::new(Opened { path, file, direct, geometry, is_block_device, container: None, flushes }))
    }

    /// What a caller has to know of it.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Attributes of the file now, whatever its path leads to meanwhile.
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
    /// The file for direct I/O of these bytes of the disk, if they are such.
    pub(crate) fn direct(&self, offset: u64, length: u64) -> Option<&File> {
        let direct = self.direct.as_ref()?;
        (length > 0 && (offset | length).is_multiple_of(direct.offset_align)).then_some(&direct.file)
    }

    /// Can direct I/O use memory at that address, and of that length?
    pub(crate) fn takes_memory(&self, bytes: &[u8]) -> bool {
        let place = bytes.as_ptr() as usize;
        self.direct.as_ref().is_some_and(|direct| {
            place.is_multiple_of(direct.memory_align)
                && (bytes.len() as u64).is_multiple_of(direct.offset_align)
        })
    }

    /// An error with the path.
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

    /// Makes everything durable that was written before this call.
    pub(crate) fn flush(&self) -> Result<(), onego_block::Error> {
        self.flushes.flush(&self.file).map_err(|error| self.flush_failed(error))
    }

    /// The result of a write. One that should have been durable and was not says as much as a flush: the device may have
    /// lost what others wrote, too.
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
            "{}: a flush failed ({}), and data that was written before may be lost: check it, and open it again",
            self.path.display(),
            io::Error::from(error)
        ))
    }

    /// The file has become shorter than it was when it was opened.
    pub(crate) fn became_shorter(&self) -> onego_block::Error {
        onego_block::Error::Failed(format!(
            "{} has become shorter than it was when it was opened",
            self.path.display()
        ))
    }
}

impl Direct {
    /// Opens a file once more, for direct I/O. `None`: its file system cannot, or does not say how.
    fn open(file: &File, access: OFlags, sector: u32) -> Option<Self> {
        let about = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        let (offset_align, memory_align) = alignment(&about, sector)?;
        let file = reopen(file, access | OFlags::DIRECT).ok()?;
        Some(Self { file, offset_align, memory_align })
    }
}

/// What direct I/O takes: multiples of which bytes of the file, and of memory. Kernels before 6.1 do not say; there, what
/// suits every disk is taken.
fn alignment(about: &Statx, sector: u32) -> Option<(u64, usize)> {
    if StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::DIOALIGN) {
        // Zeros: the file system cannot.
        let (offset, memory) = (about.stx_dio_offset_align, about.stx_dio_mem_align);
        return (offset > 0 && memory > 0).then_some((offset.max(sector).into(), memory as usize));
    }
    Some((BLOCK.max(sector).into(), BLOCK as usize))
}

/// Opens what a descriptor refers to once more.
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
        // A file system without locks.
        Err(TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "the disk cannot be locked");
            Ok(())
        }
    }
}
