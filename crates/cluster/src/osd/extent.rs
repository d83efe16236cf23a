//! Which bytes an object may have.

use super::errno::{Errno, Outcome};

/// Largest object, bytes (`osd_max_object_size`).
pub(super) const MAX_OBJECT_SIZE: u64 = 128 << 20;

/// FBIG: the bytes are more than an object may have.
pub(super) fn check_extent(offset: u64, length: u64) -> Outcome<()> {
    let within = offset < MAX_OBJECT_SIZE && length <= MAX_OBJECT_SIZE && offset + length <= MAX_OBJECT_SIZE;
    if within { Ok(()) } else { Err(Errno::FBIG) }
}
