//! Limits of every file system that is served.

use crate::caller::NO_ID;
use onego_buf::extents::COPY_MAX;
use onego_buf::{Pool, SegmentMut};
use onego_nfs::v3::{SetAttributes, SetTime, Status};

/// Most bytes of a name.
pub(crate) const NAME_MAX: usize = 255;
/// Most hard links to a file, as with ext4.
pub(crate) const LINK_MAX: u32 = 65_000;
/// Most bytes of a file: the largest signed offset.
pub(crate) const FILE_MAX: u64 = i64::MAX as u64;
/// Most bytes of a READ and of a WRITE: the most that Linux asks for.
pub(crate) const TRANSFER_MAX: usize = 1 << 20;
/// The multiple of bytes that suits READ and WRITE.
pub(super) const PAGE: u32 = 4096;
/// Most bytes of a listing.
pub(crate) const LISTING_MAX: u32 = 128 << 10;
/// All bits of a mode that a client may set (POSIX, `sys/stat.h`).
pub(crate) const MODE_ALL: u32 = 0o7777;

/// Memory for the data of a WRITE. `None`: the file system copies so few bytes anyway, so they may arrive in the memory
/// that small messages share, with one system call for many.
pub(crate) fn receive_buffer(pool: &Pool, len: usize) -> Option<SegmentMut> {
    (len > COPY_MAX).then(|| pool.get(len))
}

/// Refuses names that no file can have (RFC 1813, section 3.2).
pub(super) fn check_name(name: &[u8]) -> Result<(), Status> {
    if name.is_empty() {
        Err(Status::Access)
    } else if name.len() > NAME_MAX {
        Err(Status::Nametoolong)
    } else if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        Err(Status::Inval)
    } else {
        Ok(())
    }
}

/// Refuses values that no file can have, or that mean something else to a system call.
pub(super) fn check_values(set: &SetAttributes) -> Result<(), Status> {
    const SECOND: u32 = 1_000_000_000;
    let is_time = |time: &SetTime| !matches!(time, SetTime::To(time) if time.nanoseconds >= SECOND);
    let are_ids = set.uid != Some(NO_ID) && set.gid != Some(NO_ID);
    if !are_ids || ![set.atime, set.mtime].iter().all(is_time) {
        Err(Status::Inval)
    } else if set.size.is_some_and(|size| size > FILE_MAX) {
        Err(Status::Fbig)
    } else {
        Ok(())
    }
}
