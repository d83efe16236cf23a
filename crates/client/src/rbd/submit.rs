//! Requests to images by tag, on the thread that owns the client.

use super::image::Image;
use crate::ceph::done::ReplyTo;
use crate::ceph::error::Error;
use crate::ceph::reactor::{ImageRequest, Reactor};
use onego_rbd::Io;

impl Reactor {
    /// Submits a request to an image; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    /// Fails at once, without a completion, if the request does not fit the image.
    pub fn submit(&mut self, image: &Image, request: ImageRequest, tag: u64) -> Result<(), Error> {
        let io = match request {
            ImageRequest::Read { offset, buffer } => Io::ReadInto { offset, buffer },
            ImageRequest::Write { offset, data } => Io::Write { offset, data },
            ImageRequest::WriteZeroes { offset, length } => Io::Zero { offset, length },
            ImageRequest::Flush => Io::Flush,
        };
        let key = image.admit(&io)?;
        let (core, now) = self.core();
        core.start(now, key, io, ReplyTo::Tag(tag));
        Ok(())
    }
}
