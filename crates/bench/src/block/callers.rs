//! Callers that read or write in order, all on one thread.

use super::bed::Bed;
use super::route::Route;
use crate::Error;
use crate::cpu::Meter;
use crate::row::{Count, Pattern, latency_histogram};
use hdrhistogram::Histogram;
use onego::Segment;
use onego::block::Op;
use onego_engine::now;
use onego_wire::Time;
use std::ops::ControlFlow;
use std::time::Duration;

/// Rounds of immediately completed I/Os per reading of the clock, which costs as much as one of them.
const ROUNDS: u32 = 32;

/// Minimum sleep of a paced caller: shorter sleeps cost more than the I/Os between them.
const TICK: Duration = Duration::from_millis(1);

/// Load of the callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallersLoad {
    /// [`Read`](Pattern::Read) or [`Write`](Pattern::Write), in order.
    pub rw: Pattern,
    /// Bytes per I/O.
    pub block_size: u64,
    /// Number of callers, each with its own part of the device.
    pub callers: u32,
    /// I/Os that a caller submits together. When all are complete, it submits the next batch.
    pub batch: u32,
    /// Bytes per second of all callers together; `None`: unlimited.
    pub rate: Option<u64>,
}

pub(super) struct Counted {
    pub(super) count: Count,
    pub(super) requests: u64,
}

struct Caller {
    first: u64,
    next: u64,
    left: u32,
    began: Time,
}

pub(super) struct Callers<'a> {
    bed: &'a mut Bed,
    route: Box<dyn Route>,
    load: CallersLoad,
    callers: Vec<Caller>,
    /// Blocks in each caller's part.
    blocks: u64,
    payload: Segment,
    start: Time,
    /// I/Os started, and completed.
    begun: u64,
    done: u64,
    /// Completed I/Os without a reading of the clock since their start.
    at_once: u64,
    ready: Vec<usize>,
    latency: Histogram<u64>,
}

impl<'a> Callers<'a> {
    pub(super) fn new(bed: &'a mut Bed, route: Box<dyn Route>, load: CallersLoad, size: u64) -> Self {
        let blocks = size / u64::from(load.callers) / load.block_size;
        let start = now();
        let caller = |number| Caller { first: u64::from(number) * blocks, next: 0, left: 0, began: start };
        Self {
            bed,
            route,
            load,
            callers: (0..load.callers).map(caller).collect(),
            blocks,
            payload: vec![0xA5; load.block_size as usize].into(),
            start,
            begun: 0,
            done: 0,
            at_once: 0,
            ready: Vec::new(),
            latency: latency_histogram(),
        }
    }

    /// Runs the load for `duration`, and fails with the first I/O that fails. `told` gets the elapsed time, and returns
    /// whether to continue.
    pub(super) fn run(
        mut self,
        duration: Duration,
        mut told: impl FnMut(Duration) -> ControlFlow<()>,
    ) -> Result<Counted, Error> {
        let requests = self.bed.device.requests();
        let meter = Meter::start(self.bed.server);
        self.start = now();
        let mut time = self.start;
        while self.done == 0 || time.since(self.start) < duration {
            if told(time.since(self.start)).is_break() {
                return Err(Error::Interrupted);
            }
            time = self.look(time)?;
        }
        while self.done < self.begun {
            self.bed.turn(None)?;
            time = now();
            self.take_finished(time)?;
        }
        let count = Count {
            ios: self.done,
            errors: 0,
            seconds: time.since(self.start).as_secs_f64(),
            latency: self.latency,
            cpu_seconds: meter.spent(),
        };
        Ok(Counted { count, requests: self.bed.device.requests() - requests })
    }

    fn look(&mut self, time: Time) -> Result<Time, Error> {
        let done = self.done;
        let mut rounds = 0;
        while rounds < ROUNDS {
            self.begin(time);
            if self.take_finished(time)? == 0 {
                break;
            }
            rounds += 1;
        }
        let later = now();
        if self.at_once > 0 {
            let each = later.since(time) / rounds.max(1);
            self.latency.saturating_record_n(each.as_nanos() as u64, std::mem::take(&mut self.at_once));
        }
        if self.done > done {
            return Ok(later);
        }
        match self.begun > self.done {
            true => self.bed.turn(None)?,
            false => self.bed.turn(Some(self.next_due(later)))?,
        }
        let later = now();
        self.take_finished(later)?;
        Ok(later)
    }

    fn next_due(&self, time: Time) -> Time {
        let Some(rate) = self.load.rate else { return time };
        let bytes = (self.begun + 1) as f64 * self.load.block_size as f64;
        (self.start + Duration::from_secs_f64(bytes / rate as f64)).max(time + TICK)
    }

    fn is_ahead(&self, time: Time) -> bool {
        self.load.rate.is_some_and(|rate| {
            let due = time.since(self.start).as_secs_f64() * rate as f64;
            self.begun as f64 * self.load.block_size as f64 >= due
        })
    }

    /// Starts the next batch of each caller whose batch is complete. They alternate by single I/Os, as callers on
    /// several processors would.
    fn begin(&mut self, time: Time) {
        if self.is_ahead(time) {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.extend((0..self.callers.len()).filter(|number| self.callers[*number].left == 0));
        ready.iter().for_each(|number| self.callers[*number].began = time);
        for _ in 0..self.load.batch {
            ready.iter().for_each(|number| self.submit(time, *number));
        }
        ready.clear();
        self.ready = ready;
        self.route.release(time, &self.bed.device);
    }

    fn submit(&mut self, time: Time, number: usize) {
        let caller = &mut self.callers[number];
        let offset = (caller.first + caller.next) * self.load.block_size;
        caller.next = (caller.next + 1) % self.blocks;
        caller.left += 1;
        self.begun += 1;
        let op = match self.load.rw.writes() {
            true => Op::Write { data: self.payload.clone().into() },
            false => Op::Read { length: self.load.block_size },
        };
        self.route.submit(time, &self.bed.device, number as u32, offset, op);
    }

    fn take_finished(&mut self, time: Time) -> Result<u64, Error> {
        let before = self.done;
        while let Some(finished) = self.route.next_finished() {
            self.done += 1;
            let caller = &mut self.callers[finished.tag as usize];
            caller.left -= 1;
            match caller.began == time {
                true => self.at_once += 1,
                false => self.latency.saturating_record(time.since(caller.began).as_nanos() as u64),
            }
            let data = finished.result.map_err(|error| Error::Failed(error.to_string()))?;
            // A write returns no data, and neither does the bare loop.
            if !data.is_empty() && data.len() as u64 != self.load.block_size {
                return Err(Error::Failed(format!("a read gave {} bytes", data.len())));
            }
        }
        Ok(self.done - before)
    }
}
