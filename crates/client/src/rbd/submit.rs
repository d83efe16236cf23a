use super::image::Image;
use crate::ceph::commands::CephCommand;
use crate::ceph::done::ReplyTo;
use crate::ceph::error::Error;
use crate::ceph::reactor::{ImageRequest, Reactor};
use onego_rbd::{Io, Outcome};

impl From<ImageRequest> for Io {
    fn from(request: ImageRequest) -> Self {
        match request {
            ImageRequest::Read { offset, buffer } => Self::ReadInto { offset, buffer },
            ImageRequest::Write { offset, data } => Self::Write { offset, data },
            ImageRequest::WriteZeroes { offset, length } => Self::Zero { offset, length },
            ImageRequest::Flush => Self::Flush,
        }
    }
}

impl Reactor {
    /// Submits a request to an image; its completion carries `tag`. It is sent with the next [`turn`](Self::turn).
    /// Fails at once, without a completion, if the request does not fit the image.
    pub fn submit(&mut self, image: &Image, request: ImageRequest, tag: u64) -> Result<(), Error> {
        let io = request.into();
        let key = image.admit(&io)?;
        let (core, now) = self.core();
        core.start(now, key, io, ReplyTo::Tag(tag));
        Ok(())
    }
}

impl Image {
    /// Starts a request and calls `done` with its result, on the thread that drives the client, which `done` must not
    /// block. Cheaper than a future. If the client closes first, `done` is dropped without being called.
    ///
    /// This never waits, so the caller must bound the requests in flight. Fails at once, without a call, if the
    /// request does not fit the image.
    ///
    /// ```no_run
    /// # use onego::rbd::Image;
    /// # fn f(image: &Image) -> Result<(), onego::ceph::Error> {
    /// use onego::ceph::ImageRequest;
    /// let request = ImageRequest::Write { offset: 4096, data: vec![7; 4096].into() };
    /// image.begin(request, |result| println!("{result:?}"))
    /// # }
    /// ```
    pub fn begin(
        &self,
        request: ImageRequest,
        done: impl FnOnce(Result<Outcome, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let io = request.into();
        let image = self.admit(&io)?;
        self.cluster().post(CephCommand::Image { image, io, done: ReplyTo::Function(Box::new(done)) });
        Ok(())
    }
}
