//! An image that a copy makes.

use super::destination::{Begun, Destination, From};
use super::earlier::{Earlier, Tuning};
use super::job::CopyJob;
use crate::device::{Opener, Prepared};
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished, say};
use crate::partial::Existing;
use crate::partial_import::{IncompleteArgs, MARK_EVERY, PartialImport};
use crate::spec::SnapSpec;
use onego::block::Host;
use onego::block::copy::Copier;
use onego::rados::Pool;
use onego::rbd::{self, ImageInfo};
use std::sync::{Arc, Mutex, PoisonError};

/// An image that is being filled, and that says how far it is.
pub(super) struct NewImage {
    pool: Pool,
    info: ImageInfo,
    /// What it was told.
    marked: PartialImport,
    /// What is said of it at an early end.
    left: Left,
    /// Whether the source has a mark, which its copy inherits.
    is_incomplete: bool,
    _unfinished: Unfinished,
}

/// What is said of an image that is not whole.
#[derive(Clone)]
struct Left(Arc<Mutex<String>>);

impl Left {
    fn note(&self, shown: &str, mark: &PartialImport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = format!(
            "{shown} is not whole: {mark}; \"onego cp --resume\" goes on, \"onego rbd rm\" removes it"
        );
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl NewImage {
    /// Makes an image for a copy, or finds the one that an earlier copy has made.
    pub(super) fn open(
        job: &CopyJob<'_>,
        host: &mut Host<Copier>,
        opener: &mut Opener<'_>,
        spec: &SnapSpec,
        from: &From,
        tuning: &Tuning,
    ) -> Result<Begun, Failure> {
        if spec.snapshot.is_some() {
            return Err(Failure::Usage(format!("rbd:{spec} is a snapshot, which cannot be written to")));
        }
        let Some(shape) = job.shape else {
            return Err(Failure::Usage(format!(
                "image {spec} is no destination of this command: use \"onego cp\""
            )));
        };
        let cluster = opener.cluster(host)?;
        let (name, shown) = (&spec.image.image, format!("image {spec}"));
        let place = spec.image.place(job.pool);
        let pool = host.block_on(interrupt::unless(place.open(&cluster)))???;
        let mut marked = PartialImport::new(Some(from.size), from.facts.record(tuning.settled));
        let found = match job.existing {
            Existing::Resume => {
                host.block_on(interrupt::unless(PartialImport::earlier(&pool, name, &shown, marked.of)))???
            }
            _ => None,
        };
        if found.is_none() {
            let created = shape.create(&pool, name, from.size, marked.metadata());
            host.block_on(interrupt::unless(created))???;
        }
        let prepared = Prepared::image(spec, IncompleteArgs::ALLOWED);
        let (device, _) = opener.open_known(host, &prepared, false)?;
        if let Some(earlier) = &found {
            let (len, recorded) = (earlier.done, earlier.source.as_deref());
            // A write that the cluster has acknowledged is durable, and the mark follows the acknowledgements.
            let earlier =
                Earlier { device: &device, len, reliable: len, recorded, shown: &shown, is_whole: false };
            marked.done = earlier.check(host, from, tuning, job.shows_progress)?;
        }
        let left = Left(Arc::default());
        left.note(&shown, &marked);
        let unfinished = Unfinished::winding_down({
            let left = left.clone();
            move || Some(left.text())
        });
        let info = host.block_on(interrupt::unless(rbd::info(&pool, name)))???;
        let start = marked.done;
        let is_incomplete = from.facts.is_incomplete;
        let mut image = Self { pool, info, marked, left, is_incomplete, _unfinished: unfinished };
        if found.is_some() {
            // The bytes from here on are those of the source as it is now.
            image.tell(host, start)?;
        }
        let destination = Destination::Image(Box::new(image));
        // Bytes after the mark may be those of an earlier state of the source.
        Ok(Begun { destination, device, start, reads_as_zeros: found.is_none() })
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
        let mark = PartialImport { done, ..self.marked.clone() };
        // A full cluster must not keep it waiting, and what it is not told is not needed: an older mark is as true.
        let pool = self.pool.with_full_try();
        host.block_on(mark.tell(&pool, &self.info))??;
        self.left.note(&format!("image {}", self.info.name), &mark);
        self.marked = mark;
        Ok(())
    }

    /// Removes the mark, unless the source has one.
    pub(super) fn finish(mut self, host: &mut Host<Copier>) -> Result<(), Failure> {
        if self.is_incomplete {
            return self.tell(host, self.marked.of.unwrap_or(self.marked.done));
        }
        Ok(host.block_on(interrupt::unless(PartialImport::end(&self.pool, &self.info)))???)
    }

    pub(super) fn abandon(mut self, host: &mut Host<Copier>, done: u64) {
        // The first error is the one to tell.
        let _ = self.tell(host, done);
        say(&self.left.text());
    }
}
