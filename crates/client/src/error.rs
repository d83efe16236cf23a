use crate::mailbox::Closed;
use onego_ceph::client::{Answered, Error as ProtocolError, Waiting};
use onego_ceph::rbd::{Features, LayoutError};
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
    /// An image has snapshots, which would be lost with it (ENOTEMPTY).
    #[error("{image} has {count} snapshots; \"rbd snap purge\" removes them")]
    Snapshots {
        /// The image.
        image: String,
        /// How many.
        count: usize,
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
    /// An image is a clone, whose parent Onego does not read yet.
    #[error("image {image} is a clone and cannot be {action} yet; \"rbd flatten\" makes it whole")]
    Clone {
        /// The image.
        image: String,
        /// "read", "removed".
        action: &'static str,
    },
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
    Auth(#[from] onego_ceph::auth::Error),
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

impl From<Closed> for Error {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// A positive error number of Linux, which is what Ceph speaks on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

#[allow(missing_docs)]
impl Errno {
    pub const NOENT: Self = Self(2);
    pub const BUSY: Self = Self(16);
    pub const EXIST: Self = Self(17);
    pub const NOSPC: Self = Self(28);
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
