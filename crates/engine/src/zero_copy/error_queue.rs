//! `MSG_ZEROCOPY`: sends, and the notifications in the socket's error queue.
//! Source: Linux `Documentation/networking/msg_zerocopy.rst`.
use crate::message;
use crate::socket::{MAX_BYTES, MAX_SLICES};
use onego_buf::List;
use rustix::io::Errno;
use smallvec::SmallVec;
use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `SO_EE_ORIGIN_ZEROCOPY` and `SO_EE_CODE_ZEROCOPY_COPIED` of `linux/errqueue.h`: a notification, and that the kernel
/// has copied the data after all.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// Report that the kernel has released the memory of the sends numbered `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) low: u32,
    pub(crate) high: u32,
    pub(crate) copied: bool,
}

/// Room for one `sock_extended_err` with an IPv4 or IPv6 address, aligned as the headers require.
type Control = [u64; 16];

/// Enables `MSG_ZEROCOPY` on a socket, which ignores the flag otherwise.
pub(crate) fn enable(socket: impl AsFd) -> io::Result<()> {
    let one: libc::c_int = 1;
    // SAFETY: the option's value is an int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const one).cast(),
            size_of_val(&one) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends the first `bytes` of `list`, or fewer; they stay in use until a notification releases them. Returns the bytes
/// offered, and those that the socket took.
///
/// `ENOBUFS`: more notifications are outstanding than `net.core.optmem_max` has room for.
pub(crate) fn send(socket: BorrowedFd<'_>, list: &List, bytes: usize) -> (usize, Result<usize, Errno>) {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    let bytes = bytes.min(MAX_BYTES);
    let mut segments = list.segments();
    if let (Some(only), None) = (segments.next(), segments.next()) {
        let len = only.len().min(bytes);
        // SAFETY: they are bytes of a segment; the caller keeps the list.
        let n = unsafe { libc::send(socket.as_raw_fd(), only.as_ptr().cast(), len, flags) };
        return (len, usize::try_from(n).map_err(|_| last_error()));
    }
    let mut vectors: SmallVec<[libc::iovec; MAX_SLICES]> = message::vectors(list, bytes).collect();
    // SAFETY: an all-zero header has no name, vectors or control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    // The field's type differs between C libraries, as with the lengths below; there are at most `MAX_SLICES` vectors.
    header.msg_iovlen = vectors.len() as _;
    let asked = vectors.iter().map(|vector| vector.iov_len).sum();
    // SAFETY: the header and its vectors outlive the call, and the vectors are segments of the list.
    let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, flags) };
    (asked, usize::try_from(n).map_err(|_| last_error()))
}

/// Takes one notification. `Ok(None)`: the message was another one. `EAGAIN`: the queue is empty.
pub(crate) fn notification(socket: BorrowedFd<'_>) -> Result<Option<Notification>, Errno> {
    let mut control = MaybeUninit::<Control>::uninit();
    // SAFETY: an all-zero header has no name, vectors or control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header outlives the call, and its control buffer has the length that it states.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) };
    if n < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has filled in the header; a control message begins within what it wrote, or is null.
    let message = unsafe { libc::CMSG_FIRSTHDR(&header) };
    if message.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, so it points to a whole header within `control`, which is aligned for it.
    let head = unsafe { message.read() };
    let about_errors = matches!(
        (head.cmsg_level, head.cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    // SAFETY: only computes a length.
    let whole = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) } as usize;
    if !about_errors || (head.cmsg_len as usize) < whole {
        return Ok(None);
    }
    // SAFETY: the message is as long as its header states, so its data are within what the kernel wrote.
    let data = unsafe { libc::CMSG_DATA(message) };
    // SAFETY: as above, and long enough for the structure.
    let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
    let notification =
        Notification { low: error.ee_info, high: error.ee_data, copied: error.ee_code == CODE_COPIED };
    Ok((error.ee_errno == 0 && error.ee_origin == ORIGIN_ZEROCOPY).then_some(notification))
}

/// Aborts the connection of a socket, discarding unsent bytes, while the socket stays open for its notifications.
pub(crate) fn abort(socket: BorrowedFd<'_>) {
    // SAFETY: an all-zero address is valid, of the family `AF_UNSPEC`.
    let unspecified: libc::sockaddr = unsafe { std::mem::zeroed() };
    // SAFETY: the address outlives the call. It fails if there is no connection left, which is harmless.
    unsafe { libc::connect(socket.as_raw_fd(), &unspecified, size_of_val(&unspecified) as libc::socklen_t) };
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
