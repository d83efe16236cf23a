//! Requests to images by tag, on the thread that owns the client.

use super::image::Image;
use crate::ceph::done::ReplyTo;
use crate::ceph::error::Error;
use crate::ceph::image_io::IoOp;
use crate::ceph::reactor::{ImageRequest, Reactor};

impl Reactor {
    /// Submits a request to an image; its completion bears `tag`. It goes out with the next [`turn`](Self::turn).
    /// Fails at once, without a completion, if the request does not fit the image.
    pub fn submit(&mut self, image: &Image, request: ImageRequest, tag: u64) -> Result<(), Error> {
        let op = match request {
            ImageRequest::Read { offset, buffer } => IoOp::read_into(offset, buffer, ReplyTo::Tag(tag)),
            ImageRequest::Write { offset, data } => IoOp::write(offset, data, ReplyTo::Tag(tag)),
            ImageRequest::WriteZeroes { offset, length } => IoOp::zero(offset, length, ReplyTo::Tag(tag)),
            ImageRequest::Flush => IoOp::Flush { done: ReplyTo::Tag(tag) },
        };
        let shape = image.admit(&op)?;
        let (core, now) = self.core();
        core.start(now, shape, op);
        Ok(())
    }
}
