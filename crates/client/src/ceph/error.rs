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

/// Why something could not be done, sorted by whose fault it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration cannot be used.
    #[error("configuration {place}: {reason}")]
    Config {
        /// The file or setting.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// An image's layout cannot be.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A request lies outside of an image.
    #[error("{length} bytes at {offset} lie behind the end of the image, which has {size} bytes")]
    OutOfBounds {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes of the image.
        size: u64,
    },
    /// Something that is named does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// A pool, an image, an object.
        what: String,
    },
    /// Something that is to be created exists.
    #[error("{what} exists already")]
    Exists {
        /// A pool, an image, an object.
        what: String,
    },
    /// Something is in use.
    #[error("{what} is in use: {reason}")]
    Busy {
        /// A pool, an image, an object.
        what: String,
        /// By what.
        reason: String,
    },
    /// Something is not as it has to be for what is asked.
    #[error("{what}")]
    Unmet {
        /// What is not.
        what: String,
        /// The number by which Ceph's own programs say so.
        errno: Errno,
    },
    /// An image has snapshots, which would be lost with it (ENOTEMPTY).
    #[error("{image} has {count} snapshots; {advice}")]
    Snapshots {
        /// The image.
        image: String,
        /// How many.
        count: usize,
        /// Remedy, which depends on their kinds and on the clones that need them.
        advice: String,
    },
    /// An image has features that Onego does not keep true yet.
    #[error("image {image} cannot be {action}: Onego does not maintain its features {features} yet{advice}")]
    Features {
        /// The image.
        image: String,
        /// "written", "read".
        action: &'static str,
        /// The features.
        features: Features,
        /// What can be done, if anything.
        advice: &'static str,
    },
    /// The encryption of an image cannot be used.
    #[error("{image}: {source}")]
    Encryption {
        /// The image.
        image: String,
        /// Why not.
        source: EncryptionError,
    },
    /// Another client has taken an image over, and the cluster takes nothing of this client any more.
    #[error(transparent)]
    Image(onego_rbd::Error),
    /// The cluster refused.
    #[error("{what}: the cluster answers {errno}")]
    Refused {
        /// What was asked for.
        what: String,
        /// Its answer.
        errno: Errno,
    },
    /// The cluster refused a command, and says why.
    #[error("{what}: {status} ({errno})")]
    Command {
        /// The command.
        what: String,
        /// The cluster's words.
        status: String,
        /// Its answer.
        errno: Errno,
    },
    /// The peer's answer makes no sense.
    #[error("{what}: the cluster's answer cannot be understood: {reason}")]
    Answer {
        /// What was asked for.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cluster does not believe who the client says it is, or the other way round.
    #[error(transparent)]
    Auth(#[from] onego_msgr::auth::Error),
    /// The session with the cluster failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The cluster has not answered, or not as far as was asked for.
    #[error(
        "no monitor has answered within {waited:?}: {}",
        waiting.as_ref().map_or("is the cluster up, and are these its addresses?".to_owned(), ToString::to_string)
    )]
    NoAnswer {
        /// How long was waited.
        waited: std::time::Duration,
        /// For what, and why it did not come.
        waiting: Option<Box<Waiting>>,
    },
    /// The machine refused a resource.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The connection to the cluster was given up by this program.
    #[error("the connection to the cluster is closed")]
    Closed,
}

impl Error {
    /// What the error is about.
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

    /// The number by which Ceph's own programs say so.
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

    /// The same as an error of a request to an image.
    pub(crate) fn into_image(self) -> onego_rbd::Error {
        match self {
            Self::Image(error) => error,
            Self::Protocol(error) => error.into(),
            other => {
                tracing::warn!(error = %other, "an object cannot be read or copied from its source");
                ProtocolError::Refused { errno: -other.errno().0 }.into()
            }
        }
    }

    /// May the same call succeed a moment later without anybody changing anything? See
    /// [`ErrorKind::is_retryable`], also for what to mind where the call changes something.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }
}

impl EncryptionError {
    /// The number by which librbd says so.
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

/// The number by which librbd says so of a request to an image.
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

/// A positive error number of Linux, which is what Ceph speaks on the wire.
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
    /// What an answer with this number is about. OSDs and classes use ERANGE, EOVERFLOW and ECANCELED where a condition
    /// of a request does not hold; ESHUTDOWN says that the client is blocklisted.
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

/// The outcome of an operation: a negative number is an error.
pub(crate) fn check(result: i32, what: impl FnOnce() -> String) -> Result<u32, Error> {
    match Errno(-result) {
        _ if result >= 0 => Ok(result as u32),
        Errno::NOENT => Err(Error::NotFound { what: what() }),
        Errno::EXIST => Err(Error::Exists { what: what() }),
        errno => Err(Error::Refused { what: what(), errno }),
    }
}

/// An output of an operation makes no sense.
pub(crate) fn undecodable(what: String, error: onego_wire::DecodeError) -> Error {
    Error::Answer { what, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_numbers_that_ceph_gives_them() {
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
    fn errors_say_what_they_are_about_and_whether_to_try_again() {
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
