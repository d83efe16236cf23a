//! Why a request to an image failed.

use onego_ceph::client::{self, errno};
use onego_ceph::cls::rbd::MAX_OBJECTS;
use onego_ceph::rbd::Features;
use thiserror::Error;

/// Why a request to an image failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A request to an object failed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The request lies outside of the image.
    #[error("{length} bytes at {offset} lie behind the end of the image, which has {size} bytes")]
    OutOfBounds {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes of the image.
        size: u64,
    },
    /// The request is too large.
    #[error("a request of {length} bytes: the most is {}", crate::MAX_IO)]
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
    /// The image is open at a snapshot, or for reading alone.
    #[error("the image is open for reading alone")]
    ReadOnly,
    /// The image has features that are not maintained here.
    #[error("its features {0} are not maintained by Onego: switch them off with \"rbd feature disable\"")]
    Features(Features),
    /// Another client owns the image's exclusive lock and does not let go of it.
    #[error("{owner} owns the image's exclusive lock and does not let go of it: end what it does there")]
    LockRefused {
        /// The owner.
        owner: String,
    },
    /// Another client owns the image's exclusive lock, watches the image, and has not answered for a minute.
    #[error(
        "{owner} owns the image's exclusive lock and does not answer: end it, or shut it out by \"ceph osd blocklist\""
    )]
    LockUnanswered {
        /// The owner.
        owner: String,
    },
    /// Another client may have owned the lock during a change that needed it throughout.
    #[error("the image's exclusive lock was lost during the resize: resize it again")]
    LockLost,
    /// The lock is held by hand, and not by a client that could be asked for it.
    #[error("the image is locked by {owner} by hand: \"rbd lock rm\" removes such a lock")]
    LockedByHand {
        /// The holder.
        owner: String,
    },
    /// Another client has taken the image over, and the cluster takes nothing of this one any more.
    #[error(
        "another client has taken the image over and had this one shut out (blocklisted): writes that were in flight may \
         not be done; open the image anew by a new connection"
    )]
    Blocklisted,
    /// The image is gone, or the snapshot that it was open at.
    #[error("the image, or its snapshot, was removed while it was open")]
    Removed,
    /// The image is closed.
    #[error("the image is closed")]
    Closed,
    /// Too many writes wait for the image's lock.
    #[error("{0} writes wait for the image's lock: wait for completions")]
    Busy(usize),
}

impl Error {
    /// Does it say that the cluster takes nothing of this client any more?
    pub(crate) fn is_blocklisted(&self) -> bool {
        match self {
            Self::Client(error) => is_blocklisted(error),
            Self::Blocklisted => true,
            _ => false,
        }
    }
}

/// On the wire ESHUTDOWN says that the client is blocklisted, and nothing else.
pub(crate) fn is_blocklisted(error: &client::Error) -> bool {
    match error {
        client::Error::Refused { errno } | client::Error::WatchLost { errno } => *errno == errno::ESHUTDOWN,
        _ => false,
    }
}
