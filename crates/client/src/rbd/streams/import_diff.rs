//! What `rbd import-diff` does.

use super::apply::{DiffTarget, GRAIN};
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::Segment;
use onego_rbd::stream::{DiffDecoder, DiffEvent, StreamError};

/// Applies what [`ExportDiff`](super::ExportDiff), or `rbd export-diff`, has written, to an image, and makes the snapshot at
/// its end.
///
/// The image must show what the diff begins at. If it fails, the diff is applied in part; applying all of it again is right.
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
    /// Bytes of the stream that were applied before.
    start: u64,
    /// Bytes of the stream before the last record.
    record: u64,
}

impl ImportDiff {
    /// To the image called `name`.
    pub fn new(pool: &Pool, name: &str) -> Self {
        Self::with_grain(pool, name, GRAIN)
    }

    /// The same, with blocks of `grain` bytes that are not written, but made holes, if they are zeros.
    pub fn with_grain(pool: &Pool, name: &str, grain: u64) -> Self {
        let target = DiffTarget::new(pool, name, grain);
        Self { name: name.to_owned(), decoder: DiffDecoder::new(), target, start: 0, record: 0 }
    }

    /// The first bytes of the stream were applied before: those that [`applied`](Self::applied) gave.
    pub fn resume(&mut self, start: u64) {
        self.start = start;
        self.target.resume();
    }

    /// The next bytes of the stream. They are written when this returns, or will be.
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
            // Records end where they were applied to, and so the header is looked at again, without being applied twice.
            if self.record < self.start {
                self.target.pass_over(&event);
            } else {
                self.target.apply(event).await?;
            }
        }
    }

    /// Waits until everything is written that was pushed, and gives how many bytes of the stream need not be applied again.
    pub async fn applied(&mut self) -> Result<u64, Error> {
        self.target.drain().await?;
        Ok(if self.decoder.data_left() > 0 { self.record } else { self.decoder.position() })
    }

    /// The stream is over: fails unless it is whole. All is durable, and the snapshot is made.
    pub async fn finish(self) -> Result<(), Error> {
        self.decoder.finish().map_err(|error| refused(&self.name, error))
    }

    /// Ends early: what is under way is waited for.
    pub async fn abandon(mut self) -> Result<(), Error> {
        self.target.close().await
    }
}

/// What is wrong with a stream for an image.
pub(super) fn refused(name: &str, error: StreamError) -> Error {
    Error::Invalid(format!("what is imported to {name} is not what was exported: {error}"))
}
