//! Which bytes an object may have.

use crate::osd::errno::{Errno, Outcome};

/// Largest object, bytes (`osd_max_object_size`).
pub(in crate::osd) const MAX_OBJECT_SIZE: u64 = 128 << 20;

/// Fails with `EFBIG` unless these bytes lie within an object of the largest size.
pub(in crate::osd) fn check_extent(offset: u64, length: u64) -> Outcome<()> {
    let within = offset < MAX_OBJECT_SIZE && length <= MAX_OBJECT_SIZE && offset + length <= MAX_OBJECT_SIZE;
    if within { Ok(()) } else { Err(Errno::FBIG) }
}
