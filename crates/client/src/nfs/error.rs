use crate::error_kind::ErrorKind;
use crate::mailbox::Closed;
use crate::reactor::EngineFailed;
use onego_nfs::client;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::Status;
use std::io;
use thiserror::Error;

/// Error of a request to an NFS server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is invalid.
    #[error("invalid NFS URL {url:?}: {reason} (write nfs://HOST/EXPORT/PATH)")]
    Url {
        /// The URL.
        url: String,
        /// Reason.
        reason: String,
    },
    /// The caller's request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The server's name has no address.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// Name of the server.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// The server does not report the port of a program.
    #[error("{host} has no {program}: is its NFS server up? If it has no port mapper, specify the ports")]
    NoProgram {
        /// Name of the server.
        host: String,
        /// Name of the program.
        program: &'static str,
    },
    /// The server refused to mount a directory.
    #[error("{path} cannot be mounted: the server answers: {status}{}", advice(*.status))]
    Mount {
        /// The directory.
        path: String,
        /// The server's answer.
        status: MountStatus,
    },
    /// The server refused the call, or did not answer it.
    #[error("{what}: {source}")]
    Call {
        /// Operation that failed.
        what: String,
        /// Reason.
        source: client::Error,
    },
    /// A path contains too many symbolic links.
    #[error("{path}: more than {} symbolic links", super::path::LINKS_MAX)]
    Loop {
        /// The path.
        path: String,
    },
    /// The operating system refused a resource.
    #[error("{what}: {source}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The program closed the connection to the server.
    #[error("the connection to the server is closed")]
    Closed,
}

fn advice(status: MountStatus) -> &'static str {
    match status {
        MountStatus::Access | MountStatus::Perm => {
            " (is it exported to this machine? Servers may insist on a port below 1024 on this side: run this as root or \
             with CAP_NET_BIND_SERVICE, or let them do without by their option \"insecure\")"
        }
        _ => "",
    }
}

impl Error {
    /// Returns the server's status if it refused the call.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Call { source: client::Error::Failed(status), .. } => Some(*status),
            _ => None,
        }
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Url { .. } | Self::Invalid(_) => ErrorKind::InvalidInput,
            Self::Resolve { .. } | Self::NoProgram { .. } => ErrorKind::Disconnected,
            Self::Mount { status, .. } => match status {
                MountStatus::Noent => ErrorKind::NotFound,
                MountStatus::Perm | MountStatus::Access => ErrorKind::PermissionDenied,
                _ => ErrorKind::Refused,
            },
            Self::Call { source, .. } => kind_of(source),
            Self::Loop { .. } => ErrorKind::Refused,
            Self::Io { .. } => ErrorKind::System,
            Self::Closed => ErrorKind::Closed,
        }
    }

    /// Returns whether the same call may succeed later without intervention. See [`ErrorKind::is_retryable`], also
    /// for the pitfalls of repeating a change.
    pub fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }

    pub(super) fn call<E: Into<client::Error>>(what: impl FnOnce() -> String) -> impl FnOnce(E) -> Self {
        |source| Self::Call { what: what(), source: source.into() }
    }

    pub(super) fn failed(what: impl FnOnce() -> String, status: Status) -> Self {
        Self::Call { what: what(), source: client::Error::Failed(status) }
    }
}

/// Converts the error of a call on a file, for which no path is known.
pub(super) fn io_error(what: &str) -> impl Fn(client::Error) -> Error + '_ {
    move |source| Error::Call { what: what.to_owned(), source }
}

fn kind_of(error: &client::Error) -> ErrorKind {
    match error {
        client::Error::Unreachable { .. } | client::Error::Connection(_) => ErrorKind::Disconnected,
        client::Error::NoReply { .. } => ErrorKind::TimedOut,
        client::Error::Denied(_) => ErrorKind::PermissionDenied,
        client::Error::Refused(_) | client::Error::NotTaken(_) => ErrorKind::Unsupported,
        client::Error::Failed(status) => match status {
            Status::Noent | Status::Stale => ErrorKind::NotFound,
            Status::Exist => ErrorKind::AlreadyExists,
            Status::Jukebox => ErrorKind::Busy,
            Status::Perm | Status::Access | Status::Rofs => ErrorKind::PermissionDenied,
            Status::Nospc | Status::Dquot => ErrorKind::NoSpace,
            Status::Inval | Status::Nametoolong => ErrorKind::InvalidInput,
            Status::Notempty | Status::Notdir | Status::Isdir => ErrorKind::FailedPrecondition,
            Status::Notsupp => ErrorKind::Unsupported,
            _ => ErrorKind::Refused,
        },
        client::Error::Reply(_) | client::Error::Record(_) | client::Error::Rdma(_) => ErrorKind::Protocol,
        client::Error::Closed | client::Error::Cancelled => ErrorKind::Closed,
    }
}

impl From<Closed> for Error {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<Error> for io::Error {
    /// Converts to the nearest kind, for the traits of asynchronous I/O.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            ErrorKind::Busy => io::ErrorKind::ResourceBusy,
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::Disconnected => io::ErrorKind::ConnectionAborted,
            ErrorKind::Protocol => io::ErrorKind::InvalidData,
            ErrorKind::Closed => io::ErrorKind::NotConnected,
            ErrorKind::FailedPrecondition | ErrorKind::Refused | ErrorKind::System => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl From<EngineFailed> for Error {
    fn from(EngineFailed { what, source }: EngineFailed) -> Self {
        Self::Io { what, source }
    }
}
