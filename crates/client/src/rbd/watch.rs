use super::header::{ImageInfo, describe};
use crate::ceph::error::{Errno, Error};
use crate::rados::{Notification, Pool, Watch, WatchEvent};
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_rbd::notify::{self, Operation, Response};

/// An event of an image.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageEvent {
    /// The header changed: size, features or snapshots.
    Changed,
    /// A snapshot is about to be created, and waits for the answer.
    Quiesce(QuiesceRequest),
    /// The snapshot was created or abandoned.
    Unquiesce,
    /// The watch is lost: no further events will arrive.
    Lost,
}

/// A request to pause writes until [`ImageEvent::Unquiesce`]. Dropping it grants the request.
#[derive(Debug)]
pub struct QuiesceRequest {
    notification: Notification,
}

impl QuiesceRequest {
    /// Reports that writes are paused, or why they cannot be.
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
    /// Watches an image whose info is known.
    pub async fn open(pool: &Pool, image: &ImageInfo) -> Result<Self, Error> {
        match pool.watch(&image.header_object()).await {
            Ok(watch) => Ok(Self { watch }),
            Err(Error::NotFound { .. }) => Err(Error::NotFound { what: describe(pool, &image.name) }),
            Err(error) => Err(error),
        }
    }

    /// Returns the watch's cookie, unique among this client's watches.
    pub fn cookie(&self) -> u64 {
        self.watch.cookie()
    }

    /// Returns the next event, or `None` once the watch has ended.
    pub async fn next(&mut self) -> Option<ImageEvent> {
        loop {
            let notification = match self.watch.next().await? {
                WatchEvent::Lost => return Some(ImageEvent::Lost),
                WatchEvent::Notify(notification) => notification,
            };
            // Dropping an irrelevant notification acknowledges it.
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

    /// Ends the watch, and waits until the cluster has confirmed that.
    pub async fn close(self) -> Result<(), Error> {
        self.watch.close().await
    }
}
