//! Error numbers, as the interface gives them.

use onego::ceph::Error;
use onego::rbd::ImageError;
use onego::rbd::encryption::{EncryptionError, LuksError, Misfit};
use std::ffi::c_int;

/// A positive error number of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const NOENT: Self = Self(libc::ENOENT);
    pub(crate) const IO: Self = Self(libc::EIO);
    pub(crate) const TOOBIG: Self = Self(libc::E2BIG);
    pub(crate) const NOMEM: Self = Self(libc::ENOMEM);
    pub(crate) const EXIST: Self = Self(libc::EEXIST);
    pub(crate) const INVAL: Self = Self(libc::EINVAL);
    pub(crate) const ROFS: Self = Self(libc::EROFS);
    pub(crate) const RANGE: Self = Self(libc::ERANGE);
    pub(crate) const NAMETOOLONG: Self = Self(libc::ENAMETOOLONG);
    pub(crate) const NOTSUP: Self = Self(libc::EOPNOTSUPP);
    pub(crate) const ISCONN: Self = Self(libc::EISCONN);
    pub(crate) const NOTCONN: Self = Self(libc::ENOTCONN);
    pub(crate) const TIMEDOUT: Self = Self(libc::ETIMEDOUT);

    /// As functions return it.
    pub(crate) fn negative(self) -> c_int {
        -self.0
    }

    /// The error in what an OSD answers, if it is one.
    pub(crate) fn check(result: i32) -> Result<i32, Self> {
        if result < 0 { Err(Self(-result)) } else { Ok(result) }
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        let errno = of(&error);
        tracing::debug!(%error, errno = errno.0);
        errno
    }
}

/// The error number that librados or librbd would give.
fn of(error: &Error) -> Errno {
    match error {
        Error::NotFound { .. } => Errno::NOENT,
        Error::Exists { .. } => Errno::EXIST,
        Error::Busy { .. } => Errno(libc::EBUSY),
        Error::Snapshots { .. } => Errno(libc::ENOTEMPTY),
        Error::Features { .. } => Errno(libc::ENOSYS),
        Error::Unmet { errno, .. } | Error::Refused { errno, .. } | Error::Command { errno, .. } => {
            Errno(errno.0)
        }
        Error::Encryption { source, .. } => of_encryption(source),
        Error::Auth(_) => Errno(libc::EACCES),
        Error::Protocol(error) => Errno(-error.errno()),
        Error::NoAnswer { .. } => Errno::TIMEDOUT,
        Error::Image(error) => of_image(error),
        Error::Closed => Errno::NOTCONN,
        Error::Config { .. } | Error::Invalid(_) | Error::Layout(_) | Error::OutOfBounds { .. } => {
            Errno::INVAL
        }
        _ => Errno::IO,
    }
}

/// The same for the encryption of an image.
fn of_encryption(error: &EncryptionError) -> Errno {
    match error {
        EncryptionError::Luks(LuksError::WrongPassphrase) => Errno(libc::EPERM),
        EncryptionError::Misfit(Misfit::Size { .. }) => Errno(libc::ENOSPC),
        EncryptionError::Loaded => Errno::EXIST,
        _ => Errno::INVAL,
    }
}

/// The same for a request to an image.
fn of_image(error: &ImageError) -> Errno {
    match error {
        ImageError::Client(error) => Errno(-error.errno()),
        ImageError::OutOfBounds { .. } | ImageError::TooLong { .. } => Errno::INVAL,
        ImageError::ReadOnly | ImageError::LockRefused { .. } | ImageError::LockedByHand { .. } => {
            Errno::ROFS
        }
        ImageError::Features(_) => Errno(libc::ENOSYS),
        ImageError::LockUnanswered { .. } => Errno(libc::ETIMEDOUT),
        ImageError::Blocklisted => Errno(libc::ESHUTDOWN),
        ImageError::Removed => Errno::NOENT,
        ImageError::Closed => Errno::NOTCONN,
        ImageError::Busy(_) => Errno(libc::EAGAIN),
    }
}
