//! Requests to send, as a ring takes them, and what it says of them.
use crate::socket::MAX_BYTES;
use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use onego_buf::List;
use std::mem::offset_of;

/// `IORING_SEND_ZC_REPORT_USAGE`, and what a notification says then if the kernel has copied (Linux 6.2).
const REPORT_USAGE: u16 = 1 << 3;
const USAGE_COPIED: u32 = 1 << 31;

/// `IORING_RECVSEND_FIXED_BUF`.
const FIXED_BUF: u16 = 1 << 2;

/// What becomes of the bytes of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// The kernel copies them.
    Copy,
    /// The kernel uses them where they are.
    ZeroCopy,
    /// As above, and the memory is registered under that index.
    Registered(u16),
}

/// A request to send the only segment of a list, of at most [`MAX_BYTES`], which has to stay where it is.
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

/// A request to send what a header names; both have to stay where they are, the header until it is submitted.
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

/// Names the registered buffer in a request.
fn with_buffer(mut request: squeue::Entry, index: u16) -> squeue::Entry {
    const { assert!(size_of::<squeue::Entry>() == 64 && offset_of!(RequestHead, buf_index) == 40) };
    let head = (&raw mut request).cast::<RequestHead>();
    // SAFETY: an entry is the kernel's structure of 64 bytes and nothing else (`repr(C)`), aligned to 8, and the
    // field lies within it.
    unsafe { (*head).buf_index = index };
    request
}

/// What a completion says of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// It has ended, and the kernel does not use its memory.
    Ended,
    /// It has ended, and a second completion follows once the kernel no longer uses its memory.
    Accepted,
    /// The kernel no longer uses its memory; it may have copied it.
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
