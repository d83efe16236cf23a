//! An image that a copy makes.

use super::options::Options;
use crate::device::{Opener, Prepared};
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished, say};
use crate::rbd::{MARK_EVERY, PartialImport};
use crate::spec::ImageSpec;
use onego::block::copy::Copier;
use onego::block::{Device, Host};
use onego::rados::Pool;
use onego::rbd::{self, ImageInfo};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// An image that is being filled, and that says how far it is.
pub(super) struct NewImage {
    pool: Pool,
    info: ImageInfo,
    /// What it was told.
    marked: PartialImport,
    /// What is said of it at an early end.
    left: Left,
    _unfinished: Unfinished,
}

/// What is said of an image that is not whole.
#[derive(Clone)]
struct Left(Arc<Mutex<String>>);

impl Left {
    fn note(&self, shown: &str, mark: PartialImport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = format!(
            "{shown} is not whole: {mark}; \"onego cp --resume\" goes on, \"onego rbd rm\" removes it"
        );
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl NewImage {
    /// Makes an image of `size` bytes, or finds the one that an earlier copy has made. The number is that of the first byte that
    /// is not there.
    pub(super) fn open(
        options: &Options,
        host: &mut Host<Copier>,
        opener: &mut Opener<'_>,
        spec: &ImageSpec,
        size: u64,
    ) -> Result<(Self, Rc<dyn Device>, u64), Failure> {
        let cluster = opener.cluster(host)?;
        let (name, shown) = (&spec.image, format!("image {spec}"));
        let pool =
            host.block_on(interrupt::unless(spec.place(options.pool.as_deref()).open(&cluster)))???;
        let mut marked = PartialImport { done: 0, of: Some(size) };
        let is_begun =
            options.resume && host.block_on(interrupt::unless(marked.resume(&pool, name, &shown)))???;
        let left = Left(Arc::default());
        left.note(&shown, marked);
        let unfinished = Unfinished::winding_down({
            let left = left.clone();
            move || Some(left.text())
        });
        if !is_begun {
            let created = options.shape.create(&pool, name, size, marked.metadata());
            host.block_on(interrupt::unless(created))???;
        }
        let device = opener.open(host, &Prepared::Image(spec.clone(), Vec::new()), false)?;
        let info = host.block_on(interrupt::unless(rbd::info(&pool, name)))???;
        let start = marked.done;
        Ok((Self { pool, info, marked, left, _unfinished: unfinished }, device, start))
    }

    /// Tells the image how far it is, now and then.
    pub(super) fn mark(&mut self, host: &mut Host<Copier>, done: u64) -> Result<(), Failure> {
        interrupt::progress();
        if done < self.marked.done + MARK_EVERY {
            return Ok(());
        }
        self.tell(host, done)
    }

    fn tell(&mut self, host: &mut Host<Copier>, done: u64) -> Result<(), Failure> {
        let mark = PartialImport { done, ..self.marked };
        // A full cluster must not keep it waiting, and what it is not told is not needed: an older mark is as true.
        let pool = self.pool.with_full_try();
        host.block_on(mark.tell(&pool, &self.info))??;
        self.marked = mark;
        self.left.note(&format!("image {}", self.info.name), mark);
        Ok(())
    }

    /// The image is whole.
    pub(super) fn finish(self, host: &mut Host<Copier>) -> Result<(), Failure> {
        Ok(host.block_on(interrupt::unless(PartialImport::end(&self.pool, &self.info)))???)
    }

    pub(super) fn abandon(mut self, host: &mut Host<Copier>, done: u64) {
        // The first error is the one to tell.
        let _ = self.tell(host, done);
        say(&self.left.text());
    }
}
