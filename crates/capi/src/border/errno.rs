//! Error numbers, as the interface gives them.

use onego::ceph::Error;
use std::ffi::c_int;

/// A positive error number of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const NOENT: Self = Self(libc::ENOENT);
    pub(crate) const NXIO: Self = Self(libc::ENXIO);
    pub(crate) const CANCELED: Self = Self(libc::ECANCELED);
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
    pub(crate) const SHUTDOWN: Self = Self(libc::ESHUTDOWN);
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
        let errno = error.errno();
        tracing::debug!(%error, errno = errno.0);
        Self(errno.0)
    }
}
