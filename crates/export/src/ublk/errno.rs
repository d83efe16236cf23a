//! Error numbers that the kernel's block layer tells apart (linux `block/blk-core.c`, `blk_errors`).

use onego_block::Error;

/// Input or output failed, for whatever reason.
pub(super) const EIO: i32 = 5;
/// The tag has no more requests: the device is stopped (ublk_cmd.h, `UBLK_IO_RES_ABORT`).
pub(super) const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;

/// The number for an error of a device. Numbers by which the block layer would try again for ever (`ENOMEM`, `EBUSY`, `EAGAIN`) are
/// none of them.
pub(super) fn of(error: &Error) -> i32 {
    match error {
        Error::NoSpace(_) => ENOSPC,
        Error::Unsupported(_) => EOPNOTSUPP,
        Error::TimedOut(_) => ETIMEDOUT,
        _ => EIO,
    }
}
