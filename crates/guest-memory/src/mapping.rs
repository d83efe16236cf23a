//! Files in the address space.

use rustix::fs::{SealFlags, Stat, fcntl_add_seals, fcntl_get_seals, fstat};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// The least unit of mappings, bytes.
const PAGE: u64 = 4096;

/// Why a file is not mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The file ends before the range.
    #[error("{length} bytes at {offset} of a file of {size} bytes: share a file that is long enough")]
    TooShort {
        /// First byte of the range in the file.
        offset: u64,
        /// Bytes of the range.
        length: u64,
        /// Bytes of the file.
        size: u64,
    },
    /// There is nothing to map.
    #[error("a range of no bytes cannot be mapped: leave it out")]
    Empty,
    /// The system refused.
    #[error("cannot map a shared file: {0}")]
    System(#[from] io::Error),
}

/// A mapping of a file, shared with everybody who has the file.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps a range of a file, and says where in the mapping it begins.
    pub(crate) fn new(file: impl AsFd, offset: u64, length: u64) -> Result<(Self, usize), MapError> {
        if length == 0 {
            return Err(MapError::Empty);
        }
        keep_from_shrinking(&file);
        // After sealing: from now on the file is at least that long.
        let stat = fstat(&file).map_err(io::Error::from)?;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let too_short = MapError::TooShort { offset, length, size };
        let Some(end) = offset.checked_add(length).filter(|end| *end <= size) else { return Err(too_short) };
        let page = page(&stat);
        let first = offset - offset % page;
        let Some(end) = end.checked_next_multiple_of(page) else { return Err(too_short) };
        let whole = usize::try_from(end - first).map_err(|_| too_short)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at no address in particular touches no memory that is in use.
        let start = unsafe { mmap(std::ptr::null_mut(), whole, prot, flags, file, first) };
        let start = NonNull::new(start.map_err(io::Error::from)?.cast::<u8>());
        let start = start.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok((Self { start, length: whole }, (offset - first) as usize))
    }

    /// The byte at a place, for accesses by raw pointers only: others change it at any time.
    ///
    /// # Panics
    /// If the mapping does not have `length` bytes there.
    pub(crate) fn at(&self, place: usize, length: usize) -> *mut u8 {
        let end = place.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length), "a place outside of the mapping");
        // SAFETY: the place is in the mapping, as was just checked.
        unsafe { self.start.as_ptr().add(place) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is a mapping of that length, and all that leads into it is dropped before.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping that is ours can be given back");
    }
}

/// Pages of the file: those of hugetlbfs are its blocks.
fn page(stat: &Stat) -> u64 {
    let block = u64::try_from(stat.st_blksize).unwrap_or(PAGE);
    if block.is_power_of_two() { block.max(PAGE) } else { PAGE }
}

fn keep_from_shrinking(file: impl AsFd) {
    let sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if !sealed && let Err(error) = fcntl_add_seals(&file, SealFlags::SHRINK) {
        tracing::warn!(%error, "shared memory can be shrunk by its owner, which would end this process: use a memfd");
    }
}
