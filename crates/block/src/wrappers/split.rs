use crate::caller::Caller;
use crate::device::Device;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::outcome::Outcome;
use crate::request::{Op, Request};
use onego_buf::{List, SegmentMut};
use onego_wire::Time;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// A device that takes longer requests than another one, which gets them in parts, all at once.
///
/// Such a request completes when its last part does, with the error of the first part that failed. Changes of other
/// parts persist in that case, as with any failed write.
pub struct Split<D> {
    device: D,
    most: u64,
}

impl<D: Device> Split<D> {
    /// Wraps `device`, raising its maximum request length to `most` bytes if that is more.
    pub fn new(device: D, most: u64) -> Self {
        Self { device, most }
    }
}

struct PartedRequest {
    /// `None` once the request has completed.
    caller: Option<Caller>,
    /// Data read by parts, with its offset in the request.
    read: Vec<(u64, PartData)>,
    left: usize,
    result: Result<(), Error>,
}

enum PartData {
    List(List),
    Buffer(SegmentMut),
}

impl PartedRequest {
    fn completed(&mut self, now: Time, at: u64, result: Result<Outcome, Error>) {
        match result {
            Ok(Outcome::Data(list)) => self.read.push((at, PartData::List(list))),
            Ok(Outcome::Filled(buffer)) => self.read.push((at, PartData::Buffer(buffer))),
            Ok(_) => {}
            Err(error) => self.result = std::mem::replace(&mut self.result, Ok(())).and(Err(error)),
        }
        self.left -= 1;
        if self.left == 0
            && let Some(caller) = self.caller.take()
        {
            let result = std::mem::replace(&mut self.result, Ok(()));
            let read = std::mem::take(&mut self.read);
            caller.complete(now, result.and_then(|()| joined(read)));
        }
    }
}

fn joined(mut read: Vec<(u64, PartData)>) -> Result<Outcome, Error> {
    let wrong = || Error::Failed("the device returned an outcome of the wrong kind".into());
    read.sort_unstable_by_key(|(at, _)| *at);
    let mut parts = read.into_iter().map(|(_, data)| data);
    match parts.next() {
        None => Ok(Outcome::Done),
        Some(PartData::List(mut list)) => {
            for part in parts {
                let PartData::List(more) = part else { return Err(wrong()) };
                list.append(more);
            }
            Ok(Outcome::Data(list))
        }
        Some(PartData::Buffer(mut buffer)) => {
            for part in parts {
                let PartData::Buffer(more) = part else { return Err(wrong()) };
                buffer.try_join(more).map_err(|_| wrong())?;
            }
            Ok(Outcome::Filled(buffer))
        }
    }
}

/// Splits the first `length` bytes off an operation with data.
fn cut_off(op: &mut Op, length: u64) -> Option<Op> {
    match op {
        Op::Read { length: left } => {
            *left -= length;
            Some(Op::Read { length })
        }
        Op::ReadInto { buffer } => Some(Op::ReadInto { buffer: buffer.split_to(length as usize) }),
        Op::Write { data } => Some(Op::Write { data: data.split_to(length as usize) }),
        Op::Flush | Op::Trim { .. } | Op::Zero { .. } | Op::Status { .. } => None,
    }
}

fn parts(length: u64, step: u64) -> impl ExactSizeIterator<Item = Range<u64>> {
    let count = usize::try_from(length.div_ceil(step)).unwrap_or(usize::MAX);
    (0..count).map(move |n| n as u64 * step..length.min((n as u64 + 1) * step))
}

impl<D: Device> Device for Split<D> {
    fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        Geometry { max_io: geometry.max_io.max(self.most), ..geometry }
    }

    fn submit(&self, now: Time, request: Request) {
        let geometry = self.device.geometry();
        let length = request.length();
        if !request.op.carries_data() || length <= geometry.max_io {
            return self.device.submit(now, request);
        }
        // A request that cannot be executed as a whole changes nothing.
        if let Err(error) = self.geometry().check(&request) {
            return request.complete(now, Err(error));
        }
        let block = u64::from(geometry.block);
        let parts = parts(length, (geometry.max_io - geometry.max_io % block).max(block));
        let Request { offset, mut op, flags, caller } = request;
        let (read, left, result) = (Vec::new(), parts.len(), Ok(()));
        let whole = Rc::new(RefCell::new(PartedRequest { caller: Some(caller), read, left, result }));
        for part in parts {
            let Some(op) = cut_off(&mut op, part.end - part.start) else { return };
            let whole = Rc::clone(&whole);
            let caller =
                Caller::call(move |now, result| whole.borrow_mut().completed(now, part.start, result));
            self.device.submit(now, Request { offset: offset + part.start, op, flags, caller });
        }
    }

    fn keeps_time(&self) -> bool {
        self.device.keeps_time()
    }

    fn due_at(&self) -> Option<Time> {
        self.device.due_at()
    }

    fn due(&self, now: Time) {
        self.device.due(now);
    }
}
