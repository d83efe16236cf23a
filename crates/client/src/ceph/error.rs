use crate::encryption_error::EncryptionError;
use crate::error_kind::ErrorKind;
use crate::mailbox::Closed;
use crate::reactor::EngineFailed;
use onego_ceph::client::{Answered, Blame, Error as ProtocolError, Waiting};
use onego_ceph::rbd::{Features, LayoutError};
use onego_luks::Error as LuksError;
use onego_rbd::Misfit;
use std::fmt;
use thiserror::Error;

/// Error of a request to a Ceph cluster.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is invalid.
    #[error("configuration {place}: {reason}")]
    Config {
        /// File or setting.
        place: String,
        /// Reason.
        reason: String,
    },
    /// The caller's request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The image layout is invalid.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The request exceeds the image.
    #[error("offset {offset} + length {length} exceeds the image size {size}")]
    OutOfBounds {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Size of the image in bytes.
        size: u64,
    },
    /// The named item does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// Pool, image or object.
        what: String,
    },
    /// The item to create already exists.
    #[error("{what} exists already")]
    Exists {
        /// Pool, image or object.
        what: String,
    },
    /// The item is in use.
    #[error("{what} is in use: {reason}")]
    Busy {
        /// Pool, image or object.
        what: String,
        /// The user, or the reason.
        reason: String,
    },
    /// A precondition of the operation does not hold.
    #[error("{what}")]
    Unmet {
        /// The failed precondition.
        what: String,
        /// Error number that Ceph's own programs report.
        errno: Errno,
    },
    /// The image has snapshots, which its removal would lose (ENOTEMPTY).
    #[error("{image} has {count} snapshots; {advice}")]
    Snapshots {
        /// Name of the image.
        image: String,
        /// Number of snapshots.
        count: usize,
        /// Remedy, which depends on the kinds of the snapshots and on the clones that need them.
        advice: String,
    },
    /// The image has features that Onego does not maintain yet.
    #[error("image {image} cannot be {action}: Onego does not maintain its features {features} yet{advice}")]
    Features {
        /// Name of the image.
        image: String,
        /// Refused action: "written" or "read".
        action: &'static str,
        /// Unsupported features.
        features: Features,
        /// Remedy, if there is one.
        advice: &'static str,
    },
    /// The encryption of the image cannot be used.
    #[error("{image}: {source}")]
    Encryption {
        /// Name of the image.
        image: String,
        /// Reason.
        source: EncryptionError,
    },
    /// Another client has taken over the image, and the cluster blocks this client.
    #[error(transparent)]
    Image(onego_rbd::Error),
    /// The cluster refused the request.
    #[error("{what}: the cluster answers {errno}")]
    Refused {
        /// The request.
        what: String,
        /// The cluster's error number.
        errno: Errno,
    },
    /// The cluster refused a command with an explanation.
    #[error("{what}: {status} ({errno})")]
    Command {
        /// The command.
        what: String,
        /// The cluster's message.
        status: String,
        /// The cluster's error number.
        errno: Errno,
    },
    /// The peer's answer is invalid.
    #[error("{what}: cannot decode the cluster's answer: {reason}")]
    Answer {
        /// The request.
        what: String,
        /// Reason.
        reason: String,
    },
    /// Authentication failed, of the client or of the cluster.
    #[error(transparent)]
    Auth(#[from] onego_msgr::auth::Error),
    /// The session with the cluster failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The cluster did not answer in time, or not with the requested state.
    #[error(
        "no monitor has answered within {waited:?}: {}",
        waiting.as_ref().map_or("is the cluster up, and are these its addresses?".to_owned(), ToString::to_string)
    )]
    NoAnswer {
        /// Duration of the wait.
        waited: std::time::Duration,
        /// The missing answer, and the reason if known.
        waiting: Option<Box<Waiting>>,
    },
    /// The operating system refused a resource.
    #[error("{what}: {source}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The program closed the connection to the cluster.
    #[error("the connection to the cluster is closed")]
    Closed,
}

impl Error {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config { .. } | Self::Invalid(_) | Self::Layout(_) | Self::OutOfBounds { .. } => {
                ErrorKind::InvalidInput
            }
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Exists { .. } => ErrorKind::AlreadyExists,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Snapshots { .. } => ErrorKind::FailedPrecondition,
            Self::Features { .. } => ErrorKind::Unsupported,
            Self::Encryption { source, .. } => source.kind(),
            Self::Image(error) => kind_of_image(error),
            Self::Unmet { errno, .. } | Self::Refused { errno, .. } | Self::Command { errno, .. } => {
                errno.kind()
            }
            Self::Answer { .. } => ErrorKind::Protocol,
            Self::Auth(_) => ErrorKind::PermissionDenied,
            Self::Protocol(error) => kind_of(error),
            Self::NoAnswer { .. } => ErrorKind::TimedOut,
            Self::Io { .. } => ErrorKind::System,
            Self::Closed => ErrorKind::Closed,
        }
    }

    /// Returns the error number that Ceph's own programs report.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NotFound { .. } => Errno::NOENT,
            Self::Exists { .. } => Errno::EXIST,
            Self::Busy { .. } => Errno::BUSY,
            Self::Snapshots { .. } => Errno::NOTEMPTY,
            Self::Features { .. } => Errno::NOSYS,
            Self::Encryption { source, .. } => source.errno(),
            Self::Unmet { errno, .. } | Self::Refused { errno, .. } | Self::Command { errno, .. } => *errno,
            Self::Auth(_) => Errno::ACCES,
            Self::Protocol(error) => Errno(-error.errno()),
            Self::Image(error) => errno_of_image(error),
            Self::NoAnswer { .. } => Errno::TIMEDOUT,
            Self::Config { .. } | Self::Invalid(_) | Self::Layout(_) | Self::OutOfBounds { .. } => {
                Errno::INVAL
            }
            Self::Closed => Errno::NOTCONN,
            Self::Answer { .. } | Self::Io { .. } => Errno::IO,
        }
    }

    pub(crate) fn into_image(self) -> onego_rbd::Error {
        match self {
            Self::Image(error) => error,
            Self::Protocol(error) => error.into(),
            other => {
                tracing::warn!(error = %other, "reading or copying an object from its source failed");
                ProtocolError::Refused { errno: -other.errno().0 }.into()
            }
        }
    }

    /// Returns whether the same call may succeed later without intervention. See [`ErrorKind::is_retryable`], also
    /// for the pitfalls of repeating a change.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}

impl EncryptionError {
    /// Returns the error number that librbd reports.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Luks(LuksError::WrongPassphrase) => Errno::PERM,
            Self::Luks(LuksError::Unsupported(_) | LuksError::TooCostly(_)) => Errno::OPNOTSUPP,
            Self::Misfit(Misfit::Size { .. }) => Errno::NOSPC,
            Self::Loaded => Errno::EXIST,
            Self::Luks(_) | Self::Misfit(_) | Self::OtherVersion | Self::TooMany { .. } => Errno::INVAL,
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Luks(LuksError::WrongPassphrase) => ErrorKind::PermissionDenied,
            Self::Luks(LuksError::Unsupported(_) | LuksError::TooCostly(_)) => ErrorKind::Unsupported,
            Self::TooMany { .. } | Self::Loaded => ErrorKind::InvalidInput,
            Self::Luks(_) | Self::Misfit(_) | Self::OtherVersion => ErrorKind::FailedPrecondition,
        }
    }
}

fn errno_of_image(error: &onego_rbd::Error) -> Errno {
    match error {
        onego_rbd::Error::Client(error) => Errno(-error.errno()),
        onego_rbd::Error::OutOfBounds { .. }
        | onego_rbd::Error::TooLong { .. }
        | onego_rbd::Error::MapLimit { .. } => Errno::INVAL,
        onego_rbd::Error::ReadOnly
        | onego_rbd::Error::LockRefused { .. }
        | onego_rbd::Error::LockedByHand { .. } => Errno::ROFS,
        onego_rbd::Error::Features(_) => Errno::NOSYS,
        onego_rbd::Error::LockUnanswered { .. } => Errno::TIMEDOUT,
        onego_rbd::Error::Blocklisted => Errno::SHUTDOWN,
        onego_rbd::Error::Removed => Errno::NOENT,
        onego_rbd::Error::Closed => Errno::NOTCONN,
        onego_rbd::Error::Busy(_) | onego_rbd::Error::LockLost => Errno::AGAIN,
    }
}

fn kind_of_image(error: &onego_rbd::Error) -> ErrorKind {
    match error {
        onego_rbd::Error::Client(error) => kind_of(error),
        onego_rbd::Error::OutOfBounds { .. }
        | onego_rbd::Error::TooLong { .. }
        | onego_rbd::Error::MapLimit { .. }
        | onego_rbd::Error::ReadOnly => ErrorKind::InvalidInput,
        onego_rbd::Error::Features(_) => ErrorKind::Unsupported,
        onego_rbd::Error::LockRefused { .. }
        | onego_rbd::Error::LockUnanswered { .. }
        | onego_rbd::Error::LockedByHand { .. }
        | onego_rbd::Error::LockLost
        | onego_rbd::Error::Busy(_) => ErrorKind::Busy,
        onego_rbd::Error::Blocklisted => ErrorKind::PermissionDenied,
        onego_rbd::Error::Removed => ErrorKind::NotFound,
        onego_rbd::Error::Closed => ErrorKind::Closed,
    }
}

fn kind_of(error: &ProtocolError) -> ErrorKind {
    match error {
        ProtocolError::Refused { errno } => Errno(-errno).kind(),
        ProtocolError::NoPool(_) => ErrorKind::NotFound,
        ProtocolError::Busy { .. } => ErrorKind::Busy,
        ProtocolError::Timeout { .. } => ErrorKind::TimedOut,
        ProtocolError::WatchLost { .. } => ErrorKind::Disconnected,
        ProtocolError::Cancelled | ProtocolError::Closed => ErrorKind::Closed,
        error => match error.blame() {
            Blame::Caller => ErrorKind::InvalidInput,
            Blame::Refused => ErrorKind::Refused,
            Blame::Peer => ErrorKind::Protocol,
            Blame::Transport => ErrorKind::Disconnected,
        },
    }
}

impl From<Closed> for Error {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<onego_rbd::Error> for Error {
    fn from(error: onego_rbd::Error) -> Self {
        match error {
            onego_rbd::Error::Client(error) => Self::Protocol(error),
            onego_rbd::Error::OutOfBounds { offset, length, size } => {
                Self::OutOfBounds { offset, length, size }
            }
            error @ (onego_rbd::Error::TooLong { .. }
            | onego_rbd::Error::MapLimit { .. }
            | onego_rbd::Error::ReadOnly) => Self::Invalid(error.to_string()),
            error => Self::Image(error),
        }
    }
}

impl From<EngineFailed> for Error {
    fn from(EngineFailed { what, source }: EngineFailed) -> Self {
        Self::Io { what, source }
    }
}

/// A positive Linux error number, as Ceph uses on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

#[allow(missing_docs)]
impl Errno {
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    pub const IO: Self = Self(5);
    pub const AGAIN: Self = Self(11);
    pub const ACCES: Self = Self(13);
    pub const BUSY: Self = Self(16);
    pub const EXIST: Self = Self(17);
    pub const XDEV: Self = Self(18);
    pub const INVAL: Self = Self(22);
    pub const NOSPC: Self = Self(28);
    pub const ROFS: Self = Self(30);
    pub const MLINK: Self = Self(31);
    pub const RANGE: Self = Self(34);
    pub const NOSYS: Self = Self(38);
    pub const NOTEMPTY: Self = Self(39);
    pub const BADMSG: Self = Self(74);
    pub const OVERFLOW: Self = Self(75);
    pub const RESTART: Self = Self(85);
    pub const OPNOTSUPP: Self = Self(95);
    pub const NOTCONN: Self = Self(107);
    pub const SHUTDOWN: Self = Self(108);
    pub const TIMEDOUT: Self = Self(110);
    pub const DQUOT: Self = Self(122);
    pub const CANCELED: Self = Self(125);
}

impl Errno {
    /// Returns the category of an answer with this number. OSDs and classes use ERANGE, EOVERFLOW and ECANCELED if a
    /// condition of a request does not hold; ESHUTDOWN means that the client is blocklisted.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::NOENT => ErrorKind::NotFound,
            Self::EXIST => ErrorKind::AlreadyExists,
            Self::BUSY | Self::AGAIN => ErrorKind::Busy,
            Self::PERM | Self::ACCES | Self::ROFS | Self::SHUTDOWN => ErrorKind::PermissionDenied,
            Self::NOSPC | Self::DQUOT => ErrorKind::NoSpace,
            Self::INVAL => ErrorKind::InvalidInput,
            Self::OPNOTSUPP => ErrorKind::Unsupported,
            Self::RANGE | Self::OVERFLOW | Self::CANCELED | Self::NOTEMPTY => ErrorKind::FailedPrecondition,
            Self::TIMEDOUT => ErrorKind::TimedOut,
            _ => ErrorKind::Refused,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Answered(-self.0).fmt(f)
    }
}

/// Checks the result code of an operation, which is an error if negative.
pub(crate) fn check(result: i32, what: impl FnOnce() -> String) -> Result<u32, Error> {
    match Errno(-result) {
        _ if result >= 0 => Ok(result as u32),
        Errno::NOENT => Err(Error::NotFound { what: what() }),
        Errno::EXIST => Err(Error::Exists { what: what() }),
        errno => Err(Error::Refused { what: what(), errno }),
    }
}

pub(crate) fn undecodable(what: String, error: onego_wire::DecodeError) -> Error {
    Error::Answer { what, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_error_numbers_of_ceph() {
        let refused = |errno: i32| Error::Protocol(ProtocolError::Refused { errno });
        let not_found = Error::NotFound { what: "x".into() };
        for (error, errno) in [
            (refused(-95), Errno::OPNOTSUPP),
            (not_found, Errno::NOENT),
            (Error::Image(onego_rbd::Error::ReadOnly), Errno::ROFS),
            (Error::Image(onego_rbd::Error::Removed), Errno::NOENT),
            (Error::Image(onego_rbd::Error::Blocklisted), Errno::SHUTDOWN),
            (Error::Closed, Errno::NOTCONN),
            (Error::OutOfBounds { offset: 1, length: 1, size: 1 }, Errno::INVAL),
        ] {
            assert_eq!(error.errno(), errno, "{error}");
        }
    }

    #[test]
    fn errors_have_categories_and_know_whether_to_retry() {
        let refused = |errno: i32| Error::Protocol(ProtocolError::Refused { errno });
        let again = Error::Protocol(ProtocolError::Io(std::io::ErrorKind::ConnectionReset));
        for (error, kind, is_retryable) in [
            (refused(-2), ErrorKind::NotFound, false),
            (refused(-16), ErrorKind::Busy, true),
            (refused(-28), ErrorKind::NoSpace, false),
            (refused(-122), ErrorKind::NoSpace, false),
            (refused(-1), ErrorKind::PermissionDenied, false),
            (refused(-125), ErrorKind::FailedPrecondition, false),
            (refused(-5), ErrorKind::Refused, false),
            (again, ErrorKind::Disconnected, true),
            (Error::Protocol(ProtocolError::Mismatch("x")), ErrorKind::Protocol, false),
            (Error::Closed, ErrorKind::Closed, false),
            (Error::OutOfBounds { offset: 1, length: 1, size: 1 }, ErrorKind::InvalidInput, false),
        ] {
            assert_eq!((error.kind(), error.is_retryable()), (kind, is_retryable), "{error}");
        }
    }
}
