//! File handles (open_by_handle_at(2)), which reopen a file whatever its current name is.

use rustix::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::io;

/// Handle of a file, valid as long as the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHandle {
    kind: i32,
    len: u8,
    bytes: [u8; FileHandle::MAX],
}

/// Layout for the kernel: `struct file_handle` followed by its bytes.
#[repr(C)]
struct Raw {
    head: libc::file_handle,
    bytes: [u8; FileHandle::MAX],
}

impl Raw {
    fn new(len: u32, kind: i32, bytes: [u8; FileHandle::MAX]) -> Self {
        Self { head: libc::file_handle { handle_bytes: len, handle_type: kind, f_handle: [] }, bytes }
    }
}

impl FileHandle {
    /// Maximum length of a handle: Linux's `MAX_HANDLE_SZ`.
    pub const MAX: usize = 128;

    /// Creates a handle from its parts. Returns `None` if `bytes` is longer than [`MAX`](Self::MAX).
    pub fn new(kind: i32, bytes: &[u8]) -> Option<Self> {
        let mut own = [0; Self::MAX];
        own.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { kind, len: bytes.len() as u8, bytes: own })
    }

    /// Returns the handle of an open file, which may be open with `O_PATH`. Fails if the file system does not support
    /// handles.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mut raw = Raw::new(Self::MAX as u32, 0, [0; Self::MAX]);
        let mut mount = 0;
        let pointer = (&raw mut raw).cast();
        // SAFETY: the path is NUL-terminated; the head is followed by as many bytes as it states; `mount` is an int.
        let result = unsafe {
            libc::name_to_handle_at(
                fd.as_raw_fd(),
                c"".as_ptr(),
                pointer,
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        match result {
            0 => Ok(Self { kind: raw.head.handle_type, len: raw.head.handle_bytes as u8, bytes: raw.bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Opens the file. `mount` is any open file of its file system, except one opened with `O_PATH`; `flags` are those
    /// of open(2). Requires `CAP_DAC_READ_SEARCH`. Fails with `ESTALE` if the file is gone.
    pub fn open(&self, mount: BorrowedFd<'_>, flags: i32) -> io::Result<OwnedFd> {
        let mut raw = Raw::new(self.len.into(), self.kind, self.bytes);
        let pointer = (&raw mut raw).cast();
        // SAFETY: the head is followed by at least as many bytes as it states.
        let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), pointer, flags | libc::O_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it for this call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Returns the file system's type of the handle.
    pub fn kind(&self) -> i32 {
        self.kind
    }

    /// Returns the bytes of the handle, which are opaque except to the file system.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    fn a_handle_round_trips_through_its_parts() {
        let handle = FileHandle::new(7, b"bytes").unwrap();
        assert_eq!((handle.kind(), handle.as_bytes()), (7, &b"bytes"[..]));
        assert_eq!(FileHandle::new(0, &[0; FileHandle::MAX]).unwrap().as_bytes().len(), FileHandle::MAX);
        assert_eq!(FileHandle::new(0, &[0; FileHandle::MAX + 1]), None);
    }

    #[test]
    fn a_file_without_a_handle_fails() {
        let (end, _other) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        assert_eq!(FileHandle::of(end.as_fd()).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        let handle = FileHandle::new(1, &[0; 8]).unwrap();
        handle.open(end.as_fd(), libc::O_PATH).unwrap_err();
    }
}
