//! Error numbers as they go over the wire: negative, and Linux's whatever the machine.

pub(crate) const EPERM: i32 = -1;
pub(crate) const ENOENT: i32 = -2;
pub(crate) const EAGAIN: i32 = -11;
pub(crate) const EACCES: i32 = -13;
pub(crate) const EBUSY: i32 = -16;
pub(crate) const EEXIST: i32 = -17;
pub(crate) const EINVAL: i32 = -22;
pub(crate) const EFBIG: i32 = -27;
pub(crate) const ENOTEMPTY: i32 = -39;
pub(crate) const ERANGE: i32 = -34;
pub(crate) const EOPNOTSUPP: i32 = -95;
