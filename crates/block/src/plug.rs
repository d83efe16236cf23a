//! Context of a caller: merges the requests of one batch.

use crate::caller::{Caller, Parts};
use crate::device::Device;
use crate::geometry::Geometry;
use crate::request::{Flags, Op, Request};
use onego_wire::Time;
use smallvec::SmallVec;
use std::mem::{Discriminant, discriminant};
use std::ops::Range;

/// Maximum number of held requests. Searching them costs less than a merge saves, and a caller's batch is seldom
/// larger.
const MOST_HELD: usize = 32;

/// Holds the requests of one batch of a caller, merges adjacent ones, and passes them on when the batch ends.
///
/// A request is merged at the front or the back of a held one if both have the same operation on adjacent bytes, and if
/// the result is within the device's preferences: not longer than its `max_io`, and across no boundary. Lists are
/// joined without a copy. A request that overlaps a held one, and a flush, first pass on everything, so that no visible
/// reordering occurs.
///
/// A plug never delays a request beyond its batch: the caller calls [`release`](Self::release) at the end of each
/// batch.
#[derive(Debug, Default)]
pub struct Plug {
    held: SmallVec<[Run; 4]>,
    /// The byte ranges of `held`, kept together: most requests touch none, and this makes the check fast.
    spans: SmallVec<[Range<u64>; 4]>,
}

#[derive(Debug)]
struct Run {
    kind: Discriminant<Op>,
    op: Op,
    flags: Flags,
    parts: Parts,
}

impl Run {
    fn begin(request: Request) -> Self {
        let length = request.length();
        let Request { op, flags, caller, .. } = request;
        Self { kind: discriminant(&op), op, flags, parts: Parts::from_iter([(length, caller)]) }
    }

    /// Returns whether an adjacent request may be merged, with `whole` as the resulting bytes.
    fn takes(&self, request: &Request, whole: &Range<u64>, geometry: &Geometry) -> bool {
        let within = |boundary: u64| whole.start / boundary == (whole.end - 1) / boundary;
        self.kind == discriminant(&request.op)
            && self.flags == request.flags
            && whole.end - whole.start <= geometry.max_io
            && geometry.boundary.is_none_or(within)
    }

    /// Appends or prepends an adjacent request. Returns it if its memory cannot be joined.
    fn merge(&mut self, request: Request, back: bool) -> Option<Request> {
        let (offset, length) = (request.offset, request.length());
        let Request { op, flags, caller, .. } = request;
        if let Err(op) = join(&mut self.op, op, back) {
            return Some(Request { offset, op, flags, caller });
        }
        let at = if back { self.parts.len() } else { 0 };
        self.parts.insert(at, (length, caller));
        None
    }

    fn into_request(self, offset: u64) -> Request {
        Request { offset, op: self.op, flags: self.flags, caller: Caller::joined(self.parts) }
    }
}

/// Joins two operations of one kind, the second after the first or before it.
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
        // Buffers of two callers are adjacent in memory only by chance.
        (_, with) => return Err(with),
    }
    Ok(())
}

fn merges(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::Write { .. } | Op::Trim { .. } | Op::Zero { .. })
}

impl Plug {
    /// Takes a request of the batch. It goes down now, merged with a later one, or with [`release`](Self::release).
    pub fn submit(&mut self, now: Time, device: &dyn Device, request: Request) {
        let geometry = device.geometry();
        if geometry.check(&request).is_err() {
            // The device reports the error. Merged with others, it would fail them, too.
            return device.submit(now, request);
        }
        if !geometry.gains_by_merging || !merges(&request.op) || request.length() == 0 {
            self.release(now, device);
            return device.submit(now, request);
        }
        let bytes = request.offset..request.end();
        let touches = |span: &Range<u64>| span.start <= bytes.end && bytes.start <= span.end;
        let request = match self.spans.iter().any(touches) {
            true => self.merge(now, device, &geometry, request),
            false => Some(request),
        };
        let Some(request) = request else { return };
        if self.held.len() >= MOST_HELD {
            self.release(now, device);
        }
        self.spans.push(bytes);
        self.held.push(Run::begin(request));
    }

    /// Merges a request that touches a held one. Returns it if it has to be held by itself.
    fn merge(
        &mut self,
        now: Time,
        device: &dyn Device,
        geometry: &Geometry,
        request: Request,
    ) -> Option<Request> {
        let bytes = request.offset..request.end();
        if self.spans.iter().any(|span| span.start < bytes.end && bytes.start < span.end) {
            self.release(now, device);
            return Some(request);
        }
        let mut request = request;
        for (run, span) in self.held.iter_mut().zip(&mut self.spans).rev() {
            let back = span.end == bytes.start;
            let whole = span.start.min(bytes.start)..span.end.max(bytes.end);
            if (!back && bytes.end != span.start) || !run.takes(&request, &whole, geometry) {
                continue;
            }
            match run.merge(request, back) {
                None => {
                    *span = whole;
                    return None;
                }
                Some(same) => request = same,
            }
        }
        Some(request)
    }

    /// Passes on all held requests, in order.
    pub fn release(&mut self, now: Time, device: &dyn Device) {
        for (run, span) in self.held.drain(..).zip(self.spans.drain(..)) {
            device.submit(now, run.into_request(span.start));
        }
    }

    /// Returns whether no request is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
