//! What the users of an image tell each other, for programs that want to know.

use super::header::{ImageInfo, describe};
use crate::ceph::error::{Errno, Error};
use crate::rados::{Notification, Pool, Watch, WatchEvent};
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_rbd::notify::{self, Operation, Response};

/// Something that the users of an image are told.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageEvent {
    /// The header has changed: size, features, snapshots.
    Changed,
    /// A snapshot is about to be made, which waits for the answer.
    Quiesce(QuiesceRequest),
    /// The snapshot is made, or will not be.
    Unquiesce,
    /// The watch is lost: nothing is told any more.
    Lost,
}

/// A request to let no writes go until [`ImageEvent::Unquiesce`]. It is granted when this is dropped.
#[derive(Debug)]
pub struct QuiesceRequest {
    notification: Notification,
}

impl QuiesceRequest {
    /// Says that the writes rest, or why they cannot.
    pub fn answer(self, result: Result<(), Errno>) {
        let result = result.map_or_else(|errno| -errno.0, |()| 0);
        self.notification.acknowledge(Response { result }.to_bytes());
    }
}

/// A watch of an image.
#[derive(Debug)]
pub struct ImageWatch {
    watch: Watch,
}

impl ImageWatch {
    /// Watches an image that is known.
    pub async fn open(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        match pool.watch(&image.header_object()).await {
            Ok(watch) => Ok(Self { watch }),
            Err(Error::NotFound { .. }) => Err(Error::NotFound { what: describe(pool, &image.name) }),
            Err(error) => Err(error),
        }
    }

    /// Its number, which no other watch of this client has.
    pub fn cookie(&self) -> u64 {
        self.watch.cookie()
    }

    /// What happens next; `None`: the watch has ended.
    pub async fn next(&mut self) -> Option<ImageEvent> {
        loop {
            let notification = match self.watch.next().await? {
                WatchEvent::Lost => return Some(ImageEvent::Lost),
                WatchEvent::Notify(notification) => notification,
            };
            // What is of no interest is acknowledged by being dropped.
            match notify::Notification::from_bytes(&notification.payload().to_vec()) {
                Ok(notify::Notification::HeaderUpdate) => return Some(ImageEvent::Changed),
                Ok(notify::Notification::Operation(Operation::Quiesce { .. })) => {
                    return Some(ImageEvent::Quiesce(QuiesceRequest { notification }));
                }
                Ok(notify::Notification::Operation(Operation::Unquiesce { .. })) => {
                    return Some(ImageEvent::Unquiesce);
                }
                _ => {}
            }
        }
    }

    /// Gives the watch up, and waits until the cluster knows.
    pub async fn close(self) -> Result<(), Error> {
        self.watch.close().await
    }
}
