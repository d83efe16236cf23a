//! A copy of one device to another, from its begin to its end.

use super::destination::{Begun, Destination, From};
use super::earlier::Tuning;
use crate::access::Access;
use crate::device::{FileArgs, Opener, Prepared, Source};
use crate::failure::Failure;
use crate::interrupt::{self, Unfinished};
use crate::partial::Existing;
use crate::partial_import::IncompleteArgs;
use crate::rbd::Shape;
use onego::block::Host;
use onego::block::copy::{Copier, CopyHandle, CopyPlan, CopyProgress};
use onego::ceph::Config;
use onego_bench::report::progress::Progress;
use onego_disk::FileFormat;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes between two looks at how far the copy is.
pub(super) const LOOK_EVERY: u64 = 4 << 20;

/// What is to be copied, and how.
#[derive(Clone, Copy)]
pub(crate) struct CopyJob<'a> {
    pub(crate) source: &'a Source,
    pub(crate) destination: &'a Source,
    /// Treatment of an existing file.
    pub(crate) existing: Existing,
    /// The destination is a device: it is there, and stays as large as it is.
    pub(crate) overwrites: bool,
    /// A directory gets a file of the source's name.
    pub(crate) into_directory: bool,
    /// A file that has its name can be continued.
    pub(crate) adopts: bool,
    pub(crate) destination_is_zero: bool,
    /// Pieces in flight.
    pub(crate) depth: usize,
    /// The pool of images that name none.
    pub(crate) pool: Option<&'a str>,
    /// A comparison with an earlier copy shows its progress.
    pub(crate) shows_progress: bool,
    /// Treatment of files in formats such as qcow2.
    pub(crate) files: FileArgs,
    /// Treatment of an incomplete source.
    pub(crate) incomplete: IncompleteArgs,
    /// A new image.
    pub(crate) shape: Option<&'a Shape>,
}

impl CopyJob<'_> {
    /// Returns the job, as a copy of bytes if the source has the format that the name of a new destination stands for: nothing
    /// has to be converted, and all that the file contains is kept.
    fn with_equal_formats_raw(&self) -> Result<Self, Failure> {
        let Source::Disk(path) = self.source else { return Ok(*self) };
        let name = match self.destination {
            Source::Disk(path) => path,
            Source::Nfs(url) => Path::new(OsStr::from_bytes(url.path())),
            _ => return Ok(*self),
        };
        let named = FileFormat::of_name(name).filter(|_| !self.overwrites);
        // Opening anything but a file may have effects.
        if named.is_none() || !path.is_file() {
            return Ok(*self);
        }
        let source =
            File::open(path).and_then(|file| FileFormat::detect(&file)).map_err(Failure::file(path))?;
        let files = if source == named { FileArgs::RAW } else { self.files };
        Ok(Self { files, ..*self })
    }
}

/// A copy in progress. Dropped before it is [finished](Self::finish), it leaves what an interrupted copy leaves.
pub(crate) struct Copying {
    // Before the host, which drives it.
    destination: Destination,
    from: From,
    copy: CopyHandle,
    start: u64,
    host: Host<Copier>,
    /// Last: the host's clients end before.
    _winding_down: Option<Unfinished>,
}

impl Copying {
    /// Checks everything, and starts to copy.
    pub(crate) fn begin(
        access: &Access,
        config: Option<&Config>,
        job: &CopyJob<'_>,
        tuning: &Tuning,
    ) -> Result<Self, Failure> {
        let mut host = Host::open(access.engine, access.zero_copy()?, access.spin, |_| Copier::default())?;
        let mut opener = Opener::new(config, job.pool);
        let job = &job.with_equal_formats_raw()?;
        let source = Prepared::new(access, job.source, true, job.files)?.with_incomplete(job.incomplete);
        let (device, facts) = opener.open_known(&mut host, &source, true)?;
        let size = device.geometry().size;
        let from = From { device, facts, size };
        let begun = Destination::open(access, job, &mut host, &mut opener, &from, tuning)?;
        let Begun { destination, device, start, reads_as_zeros } = begun;
        let mut plan = CopyPlan::default();
        plan.start = start;
        plan.reads_as_zeros = reads_as_zeros || job.destination_is_zero;
        plan.depth = job.depth;
        (plan.piece, plan.span) = (tuning.piece, tuning.span);
        plan.grain = plan.grain.min(tuning.piece);
        // What watches an image ends in order.
        let has_image = job.source.is_image() || job.destination.is_image();
        let winding_down = has_image.then(|| Unfinished::winding_down(|| None));
        let copy = host.export().0.start(from.device.clone(), device, plan);
        Ok(Self { destination, from, copy, start, host, _winding_down: winding_down })
    }

    /// Bytes of the source.
    pub(crate) fn size(&self) -> u64 {
        self.from.size
    }

    /// The first byte that is copied.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn progress(&self) -> CopyProgress {
        self.copy.progress()
    }

    /// Copies `bytes` more, or until the end: then returns true.
    pub(crate) fn step(&mut self, bytes: u64) -> Result<bool, Failure> {
        if let Some(result) = self.copy.result() {
            result?;
            return Ok(true);
        }
        let done = self.copy.progress().done;
        self.destination.mark(&mut self.host, done)?;
        self.host.block_on(interrupt::unless(self.copy.beyond(done + bytes)))??;
        Ok(false)
    }

    /// The copy ends early: says what is left, and how to go on.
    pub(crate) fn abandon(mut self) {
        self.destination.abandon(&mut self.host, self.copy.progress().done);
    }

    /// All bytes are copied: the copy gets its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.destination.finish(&mut self.host, &self.from)
    }

    /// Copies to the end. Returns what was copied.
    pub(crate) fn run(mut self, shows_progress: bool) -> Result<CopyProgress, Failure> {
        let progress = Progress::of_bytes("Copying", Some(self.from.size), shows_progress);
        let copied = loop {
            progress.at(self.progress().done);
            match self.step(LOOK_EVERY) {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        progress.finish();
        let done = self.progress();
        match copied {
            Ok(()) => self.finish().map(|()| done),
            Err(failure) => {
                self.abandon();
                Err(failure)
            }
        }
    }
}
