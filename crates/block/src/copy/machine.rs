//! Machine that copies devices.

use super::compare::{Compare, CompareHandle};
use super::error::{CopyError, CopySide};
use super::extents::KnownExtents;
use super::handle::{CopyHandle, CopyState};
use super::plan::CopyPlan;
use super::zeros::data_in;
use crate::caller::{Completion, Completions};
use crate::device::Device;
use crate::error::Error;
use crate::export::Export;
use crate::null::zeros;
use crate::outcome::Outcome;
use crate::request::{Op, Request};
use crate::status::StatusExtent;
use onego_buf::List;
use onego_wire::{Layer, NoConnections, Time};
use slab::Slab;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

const ZEROS_AT_A_TIME: u64 = 64 << 20;

/// Copies one device to another after [`start`](Self::start). Drive it as the export of its devices' backends.
#[derive(Default)]
pub struct Copier {
    below: NoConnections,
    copy: Option<Copy>,
    compare: Option<Compare>,
}

impl Copier {
    /// Starts a copy of all bytes of `from` to the start of `to`. An earlier copy ends without a result.
    pub fn start(&mut self, from: Rc<dyn Device>, to: Rc<dyn Device>, plan: CopyPlan) -> CopyHandle {
        let copy = Copy::new(from, to, plan);
        let handle = CopyHandle { state: Rc::clone(&copy.state) };
        self.copy = Some(copy);
        handle
    }

    /// Starts to compare `ranges` of two devices, by reads of at most `piece` bytes. Ranges and `piece` must be
    /// multiples of the blocks of both devices.
    pub fn compare(
        &mut self,
        from: Rc<dyn Device>,
        to: Rc<dyn Device>,
        ranges: impl IntoIterator<Item = Range<u64>>,
        piece: u64,
    ) -> CompareHandle {
        let compare = Compare::new(from, to, ranges, piece);
        let handle = compare.handle();
        self.compare = Some(compare);
        handle
    }
}

struct Copy {
    from: Rc<dyn Device>,
    to: Rc<dyn Device>,
    plan: CopyPlan,
    size: u64,
    completions: Completions,
    jobs: Slab<CopyJob>,
    /// Unit of zero detection in bytes; a multiple of the blocks of both devices. Every piece begins at one.
    grain: u64,
    /// Offsets of the pieces in flight, with the number of requests of each.
    pieces: BTreeMap<u64, u32>,
    next: u64,
    extents: KnownExtents,
    /// The destination reports which of its bytes are zeros.
    knows_zeros: bool,
    stage: CopyStage,
    state: Rc<RefCell<CopyState>>,
}

#[derive(PartialEq, Eq)]
enum CopyStage {
    /// The devices are not checked yet.
    New,
    Copying,
    Flushing,
    /// The result is set; requests may still be in flight.
    Over,
}

struct CopyJob {
    offset: u64,
    length: u64,
    piece: u64,
    kind: CopyJobKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyJobKind {
    Status,
    Read,
    /// Status request for zeros of the destination.
    Look,
    Write,
    Zero,
    Flush,
}

impl CopyJobKind {
    fn side(self) -> CopySide {
        match self {
            Self::Status | Self::Read => CopySide::Source,
            Self::Look | Self::Write | Self::Zero | Self::Flush => CopySide::Destination,
        }
    }
}

impl Copy {
    fn new(from: Rc<dyn Device>, to: Rc<dyn Device>, plan: CopyPlan) -> Self {
        let size = from.geometry().size;
        let state = Rc::new(RefCell::new(CopyState::default()));
        state.borrow_mut().progress.done = plan.start.min(size);
        Self {
            from,
            to,
            plan,
            size,
            completions: Completions::default(),
            jobs: Slab::new(),
            grain: plan.grain,
            pieces: BTreeMap::new(),
            next: plan.start.min(size),
            extents: KnownExtents::new(plan.start.min(size), size),
            knows_zeros: true,
            stage: CopyStage::New,
            state,
        }
    }

    fn turn(&mut self, now: Time) {
        if self.stage == CopyStage::New {
            self.begin();
        }
        loop {
            while let Some(Completion { tag, result }) = self.completions.take() {
                self.completed(now, tag as usize, result);
            }
            self.submit(now);
            if self.completions.is_empty() {
                break;
            }
        }
    }

    fn begin(&mut self) {
        self.stage = CopyStage::Copying;
        let (from, to) = (self.from.geometry(), self.to.geometry());
        self.grain = self.plan.grain.max(from.block.into()).max(to.block.into());
        if to.read_only {
            return self.finish(Err(CopyError::ReadOnly));
        }
        if to.size < self.size {
            self.finish(Err(CopyError::TooSmall { source_size: self.size, size: to.size }));
        }
    }

    fn submit(&mut self, now: Time) {
        while self.stage == CopyStage::Copying && self.pieces.len() < self.plan.depth.max(1) {
            if let Some((offset, length)) = self.extents.ask() {
                self.request(now, offset, CopyJobKind::Status, offset, length, Op::Status { length });
                continue;
            }
            let Some((is_zero, length)) = self.extents.first() else { break };
            let first = self.oldest();
            if self.next - first >= self.plan.span {
                break;
            }
            // A block with some data is read. The source may end within a block.
            let zeros = if self.next + length < self.size { length - length % self.grain } else { length };
            match is_zero && zeros > 0 {
                true => self.zero_run(now, zeros),
                false => self.read_piece(now, length),
            }
        }
        if self.stage == CopyStage::Copying && self.next >= self.size && self.pieces.is_empty() {
            self.stage = CopyStage::Flushing;
            self.request(now, self.size, CopyJobKind::Flush, 0, 0, Op::Flush);
        }
    }

    /// Handles a run of zeros in the source.
    fn zero_run(&mut self, now: Time, length: u64) {
        let length = length.min(ZEROS_AT_A_TIME);
        let offset = self.pass(length);
        self.state.borrow_mut().progress.zeros += length;
        match self.plan.reads_as_zeros {
            true => self.advanced(),
            false => self.make_zero(now, offset, offset, self.padded(offset, length)),
        }
    }

    /// Zeroes bytes of the destination, unless it reports them as zeros.
    fn make_zero(&mut self, now: Time, piece: u64, offset: u64, length: u64) {
        match self.knows_zeros {
            true => self.request(now, piece, CopyJobKind::Look, offset, length, Op::Status { length }),
            false => self.request(now, piece, CopyJobKind::Zero, offset, length, Op::Zero { length }),
        }
    }

    /// Zeroes those bytes of a status request to the destination that are not zeros yet. The answer may cover fewer
    /// bytes than requested.
    fn make_others_zero(&mut self, now: Time, job: &CopyJob, runs: Vec<StatusExtent>) {
        let block = u64::from(self.to.geometry().block);
        let (mut at, end) = (job.offset, job.offset + job.length);
        for StatusExtent { length, status } in runs {
            let run = at..end.min(at.saturating_add(length));
            at = run.end;
            if !status.zero && !run.is_empty() {
                // Whole blocks.
                let start = run.start - run.start % block;
                let length = run.end.next_multiple_of(block).min(end) - start;
                self.request(now, job.piece, CopyJobKind::Zero, start, length, Op::Zero { length });
            }
        }
        if at == job.offset {
            // It does not report a status, and will not the next time.
            self.knows_zeros = false;
        }
        if at < end {
            let start = at - at % block;
            self.make_zero(now, job.piece, start, end - start);
        }
    }

    fn read_piece(&mut self, now: Time, length: u64) {
        let most = self.from.geometry().max_io.min(self.plan.piece);
        let most = (most - most % self.grain).max(self.grain);
        let length = length.next_multiple_of(self.grain).min(most - self.next % most);
        let length = length.min(self.size - self.next);
        let offset = self.pass(length);
        self.request(now, offset, CopyJobKind::Read, offset, length, Op::Read { length });
    }

    /// Consumes the next bytes as a piece, and returns its offset.
    fn pass(&mut self, length: u64) -> u64 {
        let offset = self.next;
        self.extents.take(length);
        self.next += length;
        offset
    }

    fn zero(&mut self, now: Time, piece: u64, offset: u64, length: u64) {
        let length = self.padded(offset, length);
        self.request(now, piece, CopyJobKind::Zero, offset, length, Op::Zero { length });
    }

    /// Rounds the length of a request to the destination up to whole blocks. The source may end within one.
    fn padded(&self, offset: u64, length: u64) -> u64 {
        let to = self.to.geometry();
        length.next_multiple_of(to.block.into()).min(to.size - offset)
    }

    fn request(&mut self, now: Time, piece: u64, kind: CopyJobKind, offset: u64, length: u64, op: Op) {
        if kind != CopyJobKind::Status {
            *self.pieces.entry(piece).or_default() += 1;
        }
        let tag = self.jobs.insert(CopyJob { offset, length, piece, kind }) as u64;
        let request = Request::new(self.completions.caller(tag), offset, op);
        match kind.side() {
            CopySide::Source => self.from.submit(now, request),
            CopySide::Destination => self.to.submit(now, request),
        }
    }

    fn completed(&mut self, now: Time, tag: usize, result: Result<Outcome, Error>) {
        let Some(job) = self.jobs.try_remove(tag) else { return };
        match (job.kind, result) {
            (CopyJobKind::Status, Ok(Outcome::Status(runs))) => self.extents.learn(job.length, runs),
            // Bytes of unknown status may be data.
            (CopyJobKind::Status, Err(Error::Unsupported(_))) => self.extents.learn(job.length, Vec::new()),
            (CopyJobKind::Read, Ok(Outcome::Data(data))) if data.len() as u64 == job.length => {
                self.write(now, job.offset, data);
                self.request_done(job.piece);
            }
            (CopyJobKind::Look, Ok(Outcome::Status(runs))) => {
                self.make_others_zero(now, &job, runs);
                self.request_done(job.piece);
            }
            (CopyJobKind::Look, Err(Error::Unsupported(_))) => {
                self.make_others_zero(now, &job, Vec::new());
                self.request_done(job.piece);
            }
            (CopyJobKind::Write | CopyJobKind::Zero, Ok(_)) => self.request_done(job.piece),
            (CopyJobKind::Flush, Ok(_)) => {
                let now = self.from.geometry().size;
                self.finish(match now == self.size {
                    true => Ok(()),
                    false => Err(CopyError::Resized { before: self.size, now }),
                });
            }
            (CopyJobKind::Flush, Err(error)) => self.finish(Err(CopyError::Flush(error))),
            (kind, result) => {
                let wrong = || Error::Failed("the device returned an outcome of the wrong kind".into());
                let CopyJob { offset, length, .. } = job;
                let source = result.err().unwrap_or_else(wrong);
                self.finish(Err(CopyError::Device { side: kind.side(), offset, length, source }));
            }
        }
    }

    /// Writes the data of a read, without the zeros.
    fn write(&mut self, now: Time, piece: u64, mut data: List) {
        if self.stage != CopyStage::Copying {
            return;
        }
        let parts = data_in(data.segments().map(|segment| &segment[..]), self.grain as usize);
        let (mut at, end) = (0, data.len());
        for part in parts {
            self.zero_part(now, piece, at..part.start);
            data.advance(part.start - at);
            at = part.end;
            let bytes = data.split_to(part.len());
            self.state.borrow_mut().progress.data += part.len() as u64;
            self.write_part(now, piece, piece + part.start as u64, bytes);
        }
        self.zero_part(now, piece, at..end);
    }

    fn zero_part(&mut self, now: Time, piece: u64, part: Range<usize>) {
        let length = part.len() as u64;
        self.state.borrow_mut().progress.zeros += length;
        if length > 0 && !self.plan.reads_as_zeros {
            self.zero(now, piece, piece + part.start as u64, length);
        }
    }

    fn write_part(&mut self, now: Time, piece: u64, mut offset: u64, mut data: List) {
        let to = self.to.geometry();
        let length = self.padded(offset, data.len() as u64);
        data.append(zeros(length - data.len() as u64));
        let most = (to.max_io - to.max_io % u64::from(to.block)).max(to.block.into());
        while !data.is_empty() {
            let bytes = data.split_to((data.len() as u64).min(most) as usize);
            let length = bytes.len() as u64;
            self.request(now, piece, CopyJobKind::Write, offset, length, Op::Write { data: bytes });
            offset += length;
        }
    }

    fn request_done(&mut self, piece: u64) {
        if let Some(requests) = self.pieces.get_mut(&piece) {
            *requests -= 1;
            if *requests == 0 {
                self.pieces.remove(&piece);
                self.advanced();
            }
        }
    }

    fn oldest(&self) -> u64 {
        self.pieces.first_key_value().map_or(self.next, |(first, _)| *first)
    }

    fn advanced(&mut self) {
        let mut state = self.state.borrow_mut();
        state.progress.done = self.oldest();
        state.changed();
    }

    fn finish(&mut self, result: Result<(), CopyError>) {
        if self.stage == CopyStage::Over {
            // The first error counts.
            return;
        }
        self.stage = CopyStage::Over;
        let mut state = self.state.borrow_mut();
        state.result = Some(result);
        state.changed();
    }
}

impl Export for Copier {
    fn has_completions(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| !copy.completions.is_empty())
            || self.compare.as_ref().is_some_and(Compare::has_completions)
    }
}

impl Layer for Copier {
    type Below = NoConnections;

    fn below(&self) -> &NoConnections {
        &self.below
    }

    fn below_mut(&mut self) -> &mut NoConnections {
        &mut self.below
    }

    fn due_at(&self) -> Option<Time> {
        let copy = self.copy.as_ref()?;
        [&copy.from, &copy.to].into_iter().filter_map(Device::due_at).min()
    }

    fn due(&mut self, now: Time) {
        if let Some(copy) = &self.copy {
            [&copy.from, &copy.to].into_iter().for_each(|device| device.due(now));
        }
    }

    fn settle(&mut self, now: Time) {
        if let Some(copy) = &mut self.copy {
            copy.turn(now);
        }
        if let Some(compare) = &mut self.compare {
            compare.turn(now);
        }
    }
}
