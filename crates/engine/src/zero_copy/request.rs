//! Send requests of a ring, and their completions.
use crate::socket::MAX_BYTES;
use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use onego_buf::List;
use std::mem::offset_of;

/// `IORING_SEND_ZC_REPORT_USAGE`, and the notification's result if the kernel has copied (Linux 6.2).
const REPORT_USAGE: u16 = 1 << 3;
const USAGE_COPIED: u32 = 1 << 31;

const FIXED_BUF: u16 = 1 << 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    Copy,
    ZeroCopy,
    Registered(u16),
}

/// Returns a request to send the only segment of a list, of at most [`MAX_BYTES`], which must stay in place.
pub(crate) fn send(fd: Fd, list: &List, transfer: Transfer, flags: i32) -> squeue::Entry {
    debug_assert!(list.len() <= MAX_BYTES, "a request has 32 bits for a length");
    let (ptr, len) =
        list.segments().next().map_or((std::ptr::null(), 0), |only| (only.as_ptr(), only.len() as u32));
    let without_copy = || opcode::SendZc::new(fd, ptr, len).flags(flags).zc_flags(REPORT_USAGE);
    match transfer {
        Transfer::Copy => opcode::Send::new(fd, ptr, len).flags(flags).build(),
        Transfer::ZeroCopy => without_copy().build(),
        Transfer::Registered(index) => without_copy().buf_index(Some(index)).build(),
    }
}

/// Returns a request to send what a header names. Both must stay in place, the header until the request is submitted.
pub(crate) fn send_message(
    fd: Fd,
    header: *const libc::msghdr,
    transfer: Transfer,
    flags: i32,
) -> squeue::Entry {
    let flags = flags as u32;
    let without_copy =
        |how| opcode::SendMsgZc::new(fd, header).ioprio(REPORT_USAGE | how).flags(flags).build();
    match transfer {
        Transfer::Copy => opcode::SendMsg::new(fd, header).flags(flags).build(),
        Transfer::ZeroCopy => without_copy(0),
        Transfer::Registered(index) => with_buffer(without_copy(FIXED_BUF), index),
    }
}

/// The kernel's request up to the field that [`opcode::SendMsgZc`] cannot set (`linux/io_uring.h`).
#[repr(C)]
struct RequestHead {
    until_user_data: [u64; 4],
    user_data: u64,
    buf_index: u16,
}

fn with_buffer(mut request: squeue::Entry, index: u16) -> squeue::Entry {
    const { assert!(size_of::<squeue::Entry>() == 64 && offset_of!(RequestHead, buf_index) == 40) };
    let head = (&raw mut request).cast::<RequestHead>();
    // SAFETY: an entry is exactly the kernel's structure of 64 bytes (`repr(C)`), aligned to 8, and the field lies
    // within it.
    unsafe { (*head).buf_index = index };
    request
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// The send has ended, and the kernel does not use its memory.
    Ended,
    /// The send has ended, and a second completion follows once the kernel no longer uses its memory.
    Accepted,
    /// The kernel no longer uses the send's memory; it may have copied it.
    Freed { copied: bool },
}

impl Completion {
    pub(crate) fn of(entry: &cqueue::Entry) -> Self {
        if cqueue::notif(entry.flags()) {
            Self::Freed { copied: entry.result() as u32 & USAGE_COPIED != 0 }
        } else if cqueue::more(entry.flags()) {
            Self::Accepted
        } else {
            Self::Ended
        }
    }
}
