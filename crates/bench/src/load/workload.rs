//! One client that keeps a number of requests in flight.

use super::fill::fill;
use super::session::{Request, Session};
use crate::Error;
use crate::pattern;
use crate::row::{Load, Pattern, latency_histogram};
use hdrhistogram::Histogram;
use onego::{Segment, SegmentMut};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of errors shown; further ones are only counted.
const MAX_SHOWN: usize = 10;

/// Errors after which a client gives up, because its figures are meaningless.
const MAX_ERRORS: u64 = 1000;

#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) load: Load,
    /// This client's own part of the bytes: whole blocks, and with verification more of them than are in flight.
    pub(crate) range: Range<u64>,
    pub(crate) duration: Duration,
    pub(crate) verify: bool,
    pub(crate) zeros: u8,
    pub(crate) seed: u64,
}

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) ios: u64,
    pub(crate) errors: u64,
    pub(crate) shown: Vec<String>,
    pub(crate) latency: Histogram<u64>,
    pub(crate) span: (Instant, Instant),
}

pub(crate) struct LoadClient<S> {
    session: S,
    work: Workload,
    slots: Vec<Slot>,
    free: Vec<usize>,
    payload: Segment,
    known: Vec<Block>,
    random: SmallRng,
    next: u64,
    blocks: u64,
    now: Instant,
    done: Done,
}

struct Slot {
    buffer: Option<SegmentMut>,
    block: u64,
    writes: bool,
    started: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    /// Number of its last write; 1 is the fill.
    generation: u32,
    busy: bool,
    /// Its last write failed, and may have been applied or not.
    doubtful: bool,
}

impl<S: Session> LoadClient<S> {
    pub(crate) fn new(session: S, work: Workload) -> Self {
        let block = work.load.block_size as usize;
        let now = Instant::now();
        let depth = work.load.io_depth as usize;
        // One allocation, as in fio: large enough for huge pages.
        let mut buffers = SegmentMut::zeroed(block * depth);
        let slot = |_| Slot { buffer: Some(buffers.split_to(block)), block: 0, writes: false, started: now };
        let mut random = SmallRng::seed_from_u64(work.seed);
        let mut payload = SegmentMut::zeroed(block);
        random.fill(&mut payload[..]);
        pattern::blank(&mut payload, work.zeros);
        let blocks = (work.range.end - work.range.start) / work.load.block_size;
        let checked = if work.verify { blocks as usize } else { 0 };
        Self {
            session,
            work,
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).collect(),
            payload: payload.freeze(),
            known: vec![Block { generation: 1, busy: false, doubtful: false }; checked],
            random,
            next: 0,
            blocks,
            now,
            done: Done {
                ios: 0,
                errors: 0,
                shown: Vec::new(),
                latency: latency_histogram(),
                span: (now, now),
            },
        }
    }

    pub(crate) fn prepare(&mut self, stop: &AtomicBool) -> Result<(), Error> {
        if self.work.verify {
            fill(&mut self.session, self.work.range.clone(), self.work.seed, 0, stop)?;
        } else if self.starts_over() {
            self.session.start_over()?;
        }
        Ok(())
    }

    pub(crate) fn run(&mut self, mut told: impl FnMut(Duration) -> bool) -> Result<(), Error> {
        let start = Instant::now();
        (self.now, self.done.span) = (start, (start, start));
        while self.now - start < self.work.duration && self.done.errors < MAX_ERRORS && told(self.now - start)
        {
            if self.next == self.blocks && self.starts_over() {
                self.drain()?;
                self.session.start_over()?;
                self.next = 0;
            }
            self.start_more()?;
            self.turn()?;
        }
        self.drain()
    }

    /// Returns whether each pass of writes starts with an empty target, which requires a single client.
    fn starts_over(&self) -> bool {
        self.work.load.rw == Pattern::Write && self.work.load.jobs == 1 && !self.work.verify
    }

    /// Reads all checked blocks once more, outside of the measurement, closes the session, and returns the results.
    /// Once `stop` is set, reads no more blocks.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> Result<Done, Error> {
        let measured = (self.done.ios, self.done.span, self.done.latency.clone());
        let mut blocks = 0..self.known.len() as u64;
        while !blocks.is_empty() && !stop.load(Ordering::Relaxed) {
            while self.session.has_room()
                && let Some(slot) = self.free.pop()
            {
                let Some(block) = blocks.next() else {
                    self.free.push(slot);
                    break;
                };
                self.submit(slot, block, false)?;
            }
            self.turn()?;
        }
        self.drain()?;
        (self.done.ios, self.done.span, self.done.latency) = measured;
        self.session.close()?;
        Ok(self.done)
    }

    fn start_more(&mut self) -> Result<(), Error> {
        while self.session.has_room()
            && !(self.next == self.blocks && self.starts_over())
            && let Some(slot) = self.free.pop()
        {
            let block = self.choose_block();
            let writes = match self.work.load.rw {
                Pattern::RandRw => self.random.random(),
                rw => rw.writes(),
            };
            self.submit(slot, block, writes)?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Error> {
        // Requests that were refused immediately are complete, and no event will report them.
        if self.take_completions() == 0 {
            self.session.turn()?;
            // One reading of the clock for all completions: it costs as much as the rest of this loop.
            self.now = Instant::now();
            self.take_completions();
        }
        Ok(())
    }

    fn take_completions(&mut self) -> usize {
        let mut n = 0;
        while let Some((tag, result)) = self.session.completion() {
            self.complete(tag as usize, result);
            n += 1;
        }
        n
    }

    fn choose_block(&mut self) -> u64 {
        // There are more blocks than requests, so an idle one is found soon.
        loop {
            let block = if self.work.load.rw.is_random() {
                self.random.random_range(0..self.blocks)
            } else {
                let block = self.next % self.blocks;
                self.next = block + 1;
                block
            };
            if !self.known.get(block as usize).is_some_and(|block| block.busy) {
                return block;
            }
        }
    }

    fn offset(&self, block: u64) -> u64 {
        self.work.range.start + block * self.work.load.block_size
    }

    fn submit(&mut self, index: usize, block: u64, writes: bool) -> Result<(), Error> {
        let offset = self.offset(block);
        let slot = &mut self.slots[index];
        (slot.block, slot.writes, slot.started) = (block, writes, self.now);
        let request = match (writes, self.known.get_mut(block as usize)) {
            (true, None) => Request::Write { offset, data: self.payload.clone().into() },
            (true, Some(known)) => {
                known.busy = true;
                let mut bytes = SegmentMut::zeroed(self.work.load.block_size as usize);
                pattern::fill(&mut bytes, self.work.seed, offset, known.generation + 1);
                Request::Write { offset, data: bytes.into() }
            }
            (false, known) => {
                if let Some(known) = known {
                    known.busy = true;
                }
                let buffer = slot.buffer.take();
                // A failed request may have kept its buffer.
                let buffer = buffer.unwrap_or_else(|| SegmentMut::zeroed(self.work.load.block_size as usize));
                Request::Read { offset, buffer }
            }
        };
        self.session.submit(request, index as u64)
    }

    fn complete(&mut self, index: usize, result: Result<Option<SegmentMut>, Error>) {
        self.done.ios += 1;
        self.done.span.1 = self.now;
        let Slot { block, writes, started, .. } = self.slots[index];
        self.done.latency.saturating_record((self.now - started).as_nanos() as u64);
        self.free.push(index);
        if let Some(known) = self.known.get_mut(block as usize) {
            known.busy = false;
            if writes {
                known.generation += 1;
                known.doubtful = result.is_err();
            }
        }
        match result {
            Ok(Some(buffer)) => {
                self.check(block, &buffer);
                self.slots[index].buffer = Some(buffer);
            }
            Ok(None) => {}
            Err(error) => {
                let verb = if writes { "writing" } else { "reading" };
                self.error(format!("{verb} at byte {}: {error}", self.offset(block)));
            }
        }
    }

    fn check(&mut self, block: u64, bytes: &[u8]) {
        let Some(known) = self.known.get(block as usize).filter(|block| !block.doubtful) else { return };
        if let Err(mismatch) = pattern::check(bytes, self.work.seed, self.offset(block), known.generation) {
            self.error(mismatch.to_string());
        }
    }

    fn error(&mut self, text: String) {
        self.done.errors += 1;
        if self.done.shown.len() < MAX_SHOWN {
            self.done.shown.push(text);
        }
    }

    fn drain(&mut self) -> Result<(), Error> {
        while self.free.len() < self.slots.len() {
            self.turn()?;
        }
        Ok(())
    }
}
