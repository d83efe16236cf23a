//! Bytes left by an earlier copy: checked before a copy continues after them.

use super::destination::From;
use super::job::LOOK_EVERY;
use crate::failure::Failure;
use crate::identity::SETTLED;
use crate::interrupt;
use crate::partial::SyncEvery;
use crate::rbd::PIECE;
use onego::block::copy::{Copier, CopyPlan};
use onego::block::{Device, Host};
use onego_bench::report::progress::Progress;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Sizes that decide how a copy is made and checked. Tests make them small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// Bytes of a read or write.
    pub(crate) piece: u64,
    /// Most bytes between the first byte that is not copied and the last that is.
    pub(crate) span: u64,
    /// Most bytes that a server may still lose: twice what the client lets it keep in memory before it commits.
    pub(crate) unstable: u64,
    /// Bytes of a sample of an earlier copy, and of the distance between two.
    pub(crate) sample: u64,
    pub(crate) sample_every: u64,
    /// Progress of a copy to a file after which it is synced.
    pub(crate) sync_every: SyncEvery,
    /// Age of the last change of a source whose next change its times tell.
    pub(crate) settled: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            piece: PIECE,
            span: CopyPlan::SPAN,
            unstable: 256 << 20,
            sample: 64 << 10,
            sample_every: 16 << 20,
            sync_every: SyncEvery::default(),
            settled: SETTLED,
        }
    }
}

/// Bytes that an earlier copy has left.
pub(super) struct Earlier<'a> {
    pub(super) device: &'a Rc<dyn Device>,
    pub(super) len: u64,
    /// Length of the part that survives any crash: between it and `len`, writes may be missing.
    pub(super) reliable: u64,
    /// Their source, if the copy noted that.
    pub(super) recorded: Option<&'a str>,
    pub(super) shown: &'a str,
    /// They are in a file of its own name, not marked as unfinished: all of them have to be those of the source.
    pub(super) is_whole: bool,
}

impl Earlier<'_> {
    /// Returns where to go on. Fails unless the bytes before are those of the source.
    ///
    /// If the source is the file that was noted, and has not changed since, samples are compared. Otherwise, and where
    /// nothing tells whether it changed (devices, images, exports), all bytes are.
    pub(super) fn check(
        &self,
        host: &mut Host<Copier>,
        from: &From,
        tuning: &Tuning,
        shows_progress: bool,
    ) -> Result<u64, Failure> {
        let Self { len, shown, .. } = *self;
        if len > from.size {
            return Err(Failure::Usage(format!(
                "{shown} has {len} bytes, and the source {}: it is a copy of another source; remove it, or copy without \
                 --resume",
                from.size
            )));
        }
        let start = if self.is_whole { len } else { self.reliable.min(len) } / tuning.piece * tuning.piece;
        let is_unchanged = self.recorded.is_some() && self.recorded == from.facts.text().as_deref();
        let ranges = match is_unchanged {
            true => samples(start, tuning),
            // Of devices, whole blocks are compared. What is left is copied again.
            false => {
                let block = u64::from(from.device.geometry().block).max(self.device.geometry().block.into());
                std::iter::once(0..if self.is_whole { len / block * block } else { start }).collect()
            }
        };
        let total = ranges.iter().map(|range: &Range<u64>| range.end - range.start).sum();
        let progress = Progress::of_bytes("Comparing", Some(total), shows_progress && total > 0);
        let (copier, _) = host.export();
        let compared = copier.compare(Rc::clone(&from.device), Rc::clone(self.device), ranges, tuning.piece);
        while !host.block_on(interrupt::unless(compared.beyond(compared.done() + LOOK_EVERY)))?? {
            progress.at(compared.done());
        }
        progress.finish();
        match host.block_on(interrupt::unless(compared.result()))??? {
            None => Ok(start),
            Some(at) => Err(Failure::Usage(format!(
                "{shown} differs from the source at byte {at} or after: the source changed since, or the copy is of another \
                 one; remove it, or copy without --resume"
            ))),
        }
    }
}

/// Parts of the first bytes that are compared: one now and then, and the last.
fn samples(end: u64, tuning: &Tuning) -> Vec<Range<u64>> {
    let at = (0..end).step_by(usize::try_from(tuning.sample_every).unwrap_or(usize::MAX));
    let last = end.saturating_sub(tuning.sample);
    at.chain([last]).map(|at| at..end.min(at + tuning.sample)).collect()
}
