//! The context of a caller: requests of one batch go down merged.

use crate::caller::{Caller, Parts};
use crate::device::Device;
use crate::geometry::Geometry;
use crate::request::{Flags, Op, Request};
use onego_wire::Time;
use smallvec::SmallVec;
use std::mem::{Discriminant, discriminant};
use std::ops::Range;

/// Most requests that a plug holds unmerged. A search among them costs less than what a merge saves, and a batch of a
/// caller is seldom larger.
const MOST_HELD: usize = 32;

/// Holds the requests of one batch of a caller, merges those that touch, and passes them on when the batch ends.
///
/// A request is merged to the front or the back of one that the plug holds if both do the same with neighbouring bytes, and
/// if the whole is one that the device likes: not longer than its `max_io`, and across no boundary. Lists are joined without
/// a copy. A request that overlaps one that is held, and a flush, let everything go first, so that nothing is reordered
/// where the order can be seen.
///
/// A plug never holds a request back once its caller has nothing more to say: the caller calls
/// [`release`](Self::release) at the end of each batch.
#[derive(Debug, Default)]
pub struct Plug {
    held: SmallVec<[Run; 4]>,
    /// From the first to the last byte that any of them is about: most requests are not in it.
    span: Range<u64>,
}

/// A request that others may be merged with.
#[derive(Debug)]
struct Run {
    offset: u64,
    end: u64,
    kind: Discriminant<Op>,
    op: Op,
    flags: Flags,
    parts: Parts,
}

impl Run {
    fn begin(request: Request) -> Self {
        let (offset, end, length) = (request.offset, request.end(), request.length());
        let Request { op, flags, caller, .. } = request;
        let parts = Parts::from_iter([(length, caller)]);
        Self { offset, end, kind: discriminant(&op), op, flags, parts }
    }

    fn overlaps(&self, request: &Request) -> bool {
        self.offset < request.end() && request.offset < self.end
    }

    /// May a request of these bytes become part of it?
    fn takes(&self, request: &Request, geometry: &Geometry) -> bool {
        let (offset, end) = (request.offset, request.end());
        if self.kind != discriminant(&request.op) || self.flags != request.flags {
            return false;
        }
        if self.end != offset && end != self.offset {
            return false;
        }
        let (offset, end) = (self.offset.min(offset), self.end.max(end));
        let within = |boundary: u64| offset / boundary == (end - 1) / boundary;
        end - offset <= geometry.max_io && geometry.boundary.is_none_or(within)
    }

    /// Adds a request that touches it. Gives it back where its memory cannot be joined.
    fn merge(&mut self, request: Request) -> Option<Request> {
        let back = self.end == request.offset;
        let (offset, end, length) = (request.offset, request.end(), request.length());
        let Request { op, flags, caller, .. } = request;
        if let Err(op) = join(&mut self.op, op, back) {
            return Some(Request { offset, op, flags, caller });
        }
        if back {
            self.end = end;
            self.parts.push((length, caller));
        } else {
            self.offset = offset;
            self.parts.insert(0, (length, caller));
        }
        None
    }

    fn into_request(self) -> Request {
        Request { offset: self.offset, op: self.op, flags: self.flags, caller: Caller::joined(self.parts) }
    }
}

/// Joins two operations of one kind, the second behind the first or before it.
fn join(op: &mut Op, with: Op, back: bool) -> Result<(), Op> {
    match (op, with) {
        (Op::Read { length }, Op::Read { length: more })
        | (Op::Trim { length }, Op::Trim { length: more })
        | (Op::Zero { length }, Op::Zero { length: more }) => *length += more,
        (Op::Write { data }, Op::Write { data: mut more }) => {
            if !back {
                std::mem::swap(data, &mut more);
            }
            data.append(more);
        }
        // Buffers of two callers are neighbours in memory only by chance.
        (_, with) => return Err(with),
    }
    Ok(())
}

/// Is there anything to win by waiting for a neighbour?
fn merges(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::Write { .. } | Op::Trim { .. } | Op::Zero { .. })
}

impl Plug {
    /// Takes a request of the batch. It goes down now, merged with a later one, or with [`release`](Self::release).
    pub fn submit(&mut self, now: Time, device: &dyn Device, request: Request) {
        let geometry = device.geometry();
        if geometry.check(&request).is_err() {
            // The device says why. Merged with others, it would take them with it.
            return device.submit(now, request);
        }
        if !merges(&request.op) || request.length() == 0 {
            self.release(now, device);
            return device.submit(now, request);
        }
        if self.overlaps(&request) {
            self.release(now, device);
        }
        let mut request = request;
        for run in self.held.iter_mut().rev() {
            if !run.takes(&request, &geometry) {
                continue;
            }
            let taken = request.offset..request.end();
            match run.merge(request) {
                None => return self.cover(taken),
                Some(back) => request = back,
            }
        }
        if self.held.len() >= MOST_HELD {
            self.release(now, device);
        }
        self.cover(request.offset..request.end());
        self.held.push(Run::begin(request));
    }

    /// Passes on all that is held, in the order in which it came.
    pub fn release(&mut self, now: Time, device: &dyn Device) {
        self.span = 0..0;
        for run in self.held.drain(..) {
            device.submit(now, run.into_request());
        }
    }

    /// Is nothing held?
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    fn overlaps(&self, request: &Request) -> bool {
        let outside = request.offset >= self.span.end || request.end() <= self.span.start;
        !outside && self.held.iter().any(|run| run.overlaps(request))
    }

    fn cover(&mut self, bytes: Range<u64>) {
        if self.span.is_empty() {
            self.span = bytes;
        } else {
            self.span = self.span.start.min(bytes.start)..self.span.end.max(bytes.end);
        }
    }
}
