//! Errors of image requests.

use onego_ceph::client::{self, errno};
use onego_ceph::cls::rbd::MAX_OBJECTS;
use onego_ceph::rbd::Features;
use thiserror::Error;

/// Error of an image request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A request to an object failed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The request exceeds the image.
    #[error("offset {offset} + length {length} exceeds the image size {size}")]
    OutOfBounds {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes of the image.
        size: u64,
    },
    /// The request is too large.
    #[error("a request of {length} bytes exceeds the limit of {}", crate::MAX_IO)]
    TooLong {
        /// Bytes.
        length: u64,
    },
    /// An object map would have too many objects.
    #[error(
        "{objects} objects exceed the {MAX_OBJECTS} of an object map: disable the feature object-map, or use larger objects"
    )]
    MapLimit {
        /// Objects.
        objects: u64,
    },
    /// The image is open at a snapshot, or read-only.
    #[error("the image is open read-only")]
    ReadOnly,
    /// The image has features that Onego does not maintain.
    #[error("Onego does not maintain the image's features {0}: disable them with \"rbd feature disable\"")]
    Features(Features),
    /// Another client owns the image's exclusive lock and does not release it.
    #[error("{owner} owns the image's exclusive lock and does not release it: stop using the image there")]
    LockRefused {
        /// The owner.
        owner: String,
    },
    /// Another client owns the image's exclusive lock, watches the image, and has not answered for a minute.
    #[error(
        "{owner} owns the image's exclusive lock and does not answer: end it, or fence it with \"ceph osd blocklist\""
    )]
    LockUnanswered {
        /// The owner.
        owner: String,
    },
    /// Another client may have owned the lock during a change that needed it throughout.
    #[error("the image's exclusive lock was lost during the resize: resize it again")]
    LockLost,
    /// The lock was taken manually, so no client can be asked to release it.
    #[error("{owner} has locked the image manually: remove the lock with \"rbd lock rm\"")]
    LockedByHand {
        /// The holder.
        owner: String,
    },
    /// Another client has broken this one's lock, and the cluster refuses all requests of this client.
    #[error(
        "another client has taken the image over and had this one shut out (blocklisted): writes that were in flight may \
         not be done; open the image anew by a new connection"
    )]
    Blocklisted,
    /// The image, or the snapshot that it was open at, was removed.
    #[error("the image, or its snapshot, was removed while it was open")]
    Removed,
    /// The image is closed.
    #[error("the image is closed")]
    Closed,
    /// Too many writes wait for the image's lock.
    #[error("{0} writes already wait for the image's lock: wait for completions")]
    Busy(usize),
}

impl Error {
    pub(crate) fn is_blocklisted(&self) -> bool {
        match self {
            Self::Client(error) => is_blocklisted(error),
            Self::Blocklisted => true,
            _ => false,
        }
    }
}

/// Returns whether the error means that the client is blocklisted. On the wire ESHUTDOWN has no other meaning.
pub(crate) fn is_blocklisted(error: &client::Error) -> bool {
    match error {
        client::Error::Refused { errno } | client::Error::WatchLost { errno } => *errno == errno::ESHUTDOWN,
        _ => false,
    }
}
