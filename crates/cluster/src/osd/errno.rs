//! Error numbers of operations: Linux's, whatever the machine, for they are on the wire.

/// Why an operation failed: a positive error number. It goes over the wire negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(i32);

/// What operations give.
pub(crate) type Outcome<T> = Result<T, Errno>;

macro_rules! numbers {
    ($($name:ident = $number:literal;)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub(crate) const $name: Self = Self($number);)*
        }
    };
}

numbers! {
    PERM = 1;
    NOENT = 2;
    IO = 5;
    NXIO = 6;
    NOEXEC = 8;
    BADF = 9;
    BUSY = 16;
    EXIST = 17;
    XDEV = 18;
    INVAL = 22;
    FBIG = 27;
    NOSPC = 28;
    RANGE = 34;
    NAMETOOLONG = 36;
    NOSYS = 38;
    NOMSG = 42;
    NODATA = 61;
    NOLINK = 67;
    BADMSG = 74;
    OVERFLOW = 75;
    OLDSNAPC = 85;
    MSGSIZE = 90;
    OPNOTSUPP = 95;
    NOTCONN = 107;
    SHUTDOWN = 108;
    TIMEDOUT = 110;
    STALE = 116;
    DQUOT = 122;
    CANCELED = 125;
}

impl Errno {
    /// What a comparison of extents gives that differs first at `offset` (ceph `src/osd/PrimaryLogPG.cc`,
    /// finish_extent_cmp): numbers from 4095 on are no errors of Linux's.
    pub(crate) fn differs_at(offset: usize) -> Self {
        const MAX_ERRNO: i32 = 4095;
        Self(MAX_ERRNO.saturating_add(i32::try_from(offset).unwrap_or(i32::MAX)))
    }

    /// The number as a result of an operation.
    pub(crate) const fn result(self) -> i32 {
        -self.0
    }
}
