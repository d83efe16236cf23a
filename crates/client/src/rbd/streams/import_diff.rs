//! Import of diff streams, as by `rbd import-diff`.

use super::apply::{DiffTarget, GRAIN};
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::Segment;
use onego_rbd::stream::{DiffDecoder, DiffEvent, StreamError};

/// Applies a diff stream of [`ExportDiff`](super::ExportDiff) or `rbd export-diff` to an image, and creates the
/// snapshot at its end.
///
/// The image must be in the state from which the diff starts. On failure the diff is partially applied; applying all
/// of it again is correct.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool, stream: Vec<Vec<u8>>) -> Result<(), onego::ceph::Error> {
/// let mut import = onego::rbd::ImportDiff::new(&pool, "copy");
/// for bytes in stream {
///     import.push(bytes).await?;
/// }
/// import.finish().await?;
/// # Ok(()) }
/// ```
pub struct ImportDiff {
    name: String,
    decoder: DiffDecoder,
    target: DiffTarget,
    /// Length of the stream's prefix that was applied before, in bytes.
    start: u64,
    record: u64,
}

impl ImportDiff {
    /// Creates an import to the image called `name`.
    pub fn new(pool: &Pool, name: &str) -> Self {
        Self::with_grain(pool, name, GRAIN)
    }

    /// Creates an import that makes zeroed blocks of `grain` bytes holes instead of writing them.
    pub fn with_grain(pool: &Pool, name: &str, grain: u64) -> Self {
        let target = DiffTarget::new(pool, name, grain);
        Self { name: name.to_owned(), decoder: DiffDecoder::new(), target, start: 0, record: 0 }
    }

    /// Skips the first `start` bytes of the stream, which were applied before according to
    /// [`applied`](Self::applied).
    pub fn resume(&mut self, start: u64) {
        self.start = start;
        self.target.resume();
    }

    /// Adds the stream's next bytes. Their writes may still be in flight when this returns.
    pub async fn push(&mut self, bytes: impl Into<Segment>) -> Result<(), Error> {
        self.decoder.push(bytes);
        loop {
            let before = self.decoder.position();
            let Some(event) = self.decoder.next_event().map_err(|error| refused(&self.name, error))? else {
                return Ok(());
            };
            if let DiffEvent::Record(_) = event {
                self.record = before;
            }
            // `start` is at a record boundary, so the header is parsed again without being applied twice.
            if self.record < self.start {
                self.target.pass_over(&event);
            } else {
                self.target.apply(event).await?;
            }
        }
    }

    /// Waits for all pushed data to be written, and returns the number of stream bytes that need not be applied
    /// again.
    pub async fn applied(&mut self) -> Result<u64, Error> {
        self.target.drain().await?;
        Ok(if self.decoder.data_left() > 0 { self.record } else { self.decoder.position() })
    }

    /// Ends the stream; fails if it is incomplete. On success everything is durable and the snapshot exists.
    pub async fn finish(self) -> Result<(), Error> {
        self.decoder.finish().map_err(|error| refused(&self.name, error))
    }

    /// Stops early, and waits for the writes in flight.
    pub async fn abandon(mut self) -> Result<(), Error> {
        self.target.close().await
    }
}

pub(super) fn refused(name: &str, error: StreamError) -> Error {
    Error::Invalid(format!("cannot import to {name}: {error}"))
}
