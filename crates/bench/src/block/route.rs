//! Routes from callers to a device.

use super::assembly::{Assembly, Finished, PieceName};
use super::elevator::Elevator;
use onego::List;
use onego::block::{Completion, Completions, Device, Op, Outcome, Plug, Request};
use onego_wire::Time;
use std::collections::VecDeque;

pub(super) trait Route {
    /// Submits a read or write of the caller with that number. Its completion has the number as its tag.
    fn submit(&mut self, now: Time, device: &dyn Device, caller: u32, offset: u64, op: Op);

    /// Ends a batch: no caller has more to submit for now.
    fn release(&mut self, _now: Time, _device: &dyn Device) {}

    fn next_finished(&mut self) -> Option<Finished>;
}

/// To no device.
#[derive(Default)]
pub(super) struct Alone(VecDeque<u64>);

impl Route for Alone {
    fn submit(&mut self, _now: Time, _device: &dyn Device, caller: u32, _offset: u64, _op: Op) {
        self.0.push_back(caller.into());
    }

    fn next_finished(&mut self) -> Option<Finished> {
        self.0.pop_front().map(|tag| Finished { tag, result: Ok(List::new()) })
    }
}

fn finished(completions: &Completions) -> Option<Finished> {
    let Completion { tag, result } = completions.take()?;
    Some(Finished { tag, result: result.map(data) })
}

fn data(outcome: Outcome) -> List {
    match outcome {
        Outcome::Data(data) => data,
        _ => List::new(),
    }
}

#[derive(Default)]
pub(super) struct Whole(Completions);

impl Route for Whole {
    fn submit(&mut self, now: Time, device: &dyn Device, caller: u32, offset: u64, op: Op) {
        device.submit(now, Request::new(self.0.caller(caller.into()), offset, op));
    }

    fn next_finished(&mut self) -> Option<Finished> {
        finished(&self.0)
    }
}

/// Through each caller's plug.
pub(super) struct Plugged {
    plugs: Vec<Plug>,
    completions: Completions,
}

impl Plugged {
    pub(super) fn new(callers: u32) -> Self {
        Self { plugs: (0..callers).map(|_| Plug::default()).collect(), completions: Completions::default() }
    }
}

impl Route for Plugged {
    fn submit(&mut self, now: Time, device: &dyn Device, caller: u32, offset: u64, op: Op) {
        let request = Request::new(self.completions.caller(caller.into()), offset, op);
        self.plugs[caller as usize].submit(now, device, request);
    }

    fn release(&mut self, now: Time, device: &dyn Device) {
        self.plugs.iter_mut().filter(|plug| !plug.is_empty()).for_each(|plug| plug.release(now, device));
    }

    fn next_finished(&mut self) -> Option<Finished> {
        finished(&self.completions)
    }
}

/// Each piece of an I/O as one request.
#[derive(Default)]
pub(super) struct CutUp {
    assembly: Assembly,
    completions: Completions,
}

impl Route for CutUp {
    fn submit(&mut self, now: Time, device: &dyn Device, caller: u32, offset: u64, op: Op) {
        let completions = &self.completions;
        self.assembly.cut(caller.into(), offset, op, |piece| {
            let op = piece.data.map_or(Op::Read { length: piece.length }, |data| Op::Write { data });
            device.submit(now, Request::new(completions.caller(piece.name.to_tag()), piece.offset, op));
        });
    }

    fn next_finished(&mut self) -> Option<Finished> {
        while let Some(Completion { tag, result }) = self.completions.take() {
            self.assembly.done(PieceName::from_tag(tag), result.map(data));
        }
        self.assembly.next_finished()
    }
}

/// Through one sorted queue for the pieces of all callers.
#[derive(Default)]
pub(super) struct Queued {
    assembly: Assembly,
    elevator: Elevator,
}

impl Route for Queued {
    fn submit(&mut self, now: Time, device: &dyn Device, caller: u32, offset: u64, op: Op) {
        let elevator = &mut self.elevator;
        self.assembly.cut(caller.into(), offset, op, |piece| elevator.submit(now, device, piece));
    }

    fn release(&mut self, now: Time, device: &dyn Device) {
        self.elevator.unplug(now, device);
    }

    fn next_finished(&mut self) -> Option<Finished> {
        self.elevator.complete(|name, result| self.assembly.done(name, result));
        self.assembly.next_finished()
    }
}

#[cfg(test)]
mod tests;
