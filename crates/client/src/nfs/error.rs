use crate::error_kind::ErrorKind;
use crate::mailbox::Closed;
use crate::reactor::EngineFailed;
use onego_nfs::client;
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::Status;
use std::io;
use thiserror::Error;

/// Why something could not be done, sorted by whose fault it is.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL cannot be used.
    #[error("{url:?} is no URL of a file server: {reason} (write nfs://HOST/EXPORT/PATH)")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller asked for something that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The server's name has no address.
    #[error("cannot find {host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server does not say where a program listens.
    #[error("{host} has no {program}: is its NFS server up? If it knows no port mapper, name its ports")]
    NoProgram {
        /// The server.
        host: String,
        /// The program.
        program: &'static str,
    },
    /// The server does not let the client mount a directory.
    #[error("{path} cannot be mounted: the server answers: {status}{}", advice(*.status))]
    Mount {
        /// The directory.
        path: String,
        /// Why.
        status: MountStatus,
    },
    /// The server refused, or could not be asked.
    #[error("{what}: {source}")]
    Call {
        /// What was to be done.
        what: String,
        /// Why it was not.
        source: client::Error,
    },
    /// Too many symbolic links lie on a path.
    #[error("{path}: more than {} symbolic links on the way", super::path::LINKS_MAX)]
    Loop {
        /// The path.
        path: String,
    },
    /// The machine refused a resource.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The connection to the server was given up by this program.
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
    /// What the server answered, if it did and refused.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Call { source: client::Error::Failed(status), .. } => Some(*status),
            _ => None,
        }
    }

    /// What the error is about.
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

    /// May the same call succeed a moment later without anybody changing anything? See
    /// [`ErrorKind::is_retryable`], also for what to mind where the call changes something.
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

/// A call that could not be made, for whom there is nothing but the file.
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
    /// An error for the traits of asynchronous I/O, of the nearest kind.
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
