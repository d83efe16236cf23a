use crate::device::Device;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::null::zeros;
use crate::outcome::Outcome;
use crate::request::{Flags, Op, Request};
use crate::status::{BlockStatus, StatusExtent};
use onego_buf::Segment;
use onego_buf::extents::Extents;
use onego_wire::Time;
use std::cell::RefCell;

/// Maximum number of pieces of data that are freed at once: at most a few milliseconds of work.
const FEW_PIECES: usize = 16 << 10;

/// A device in memory: written lists become part of it, and reads return them in place. Bytes that were never written,
/// or were trimmed or zeroed, take no memory.
pub struct Memory {
    geometry: Geometry,
    extents: RefCell<Extents>,
    zeros: Segment,
}

impl Memory {
    /// Creates a device of that geometry that reads as zeros.
    pub fn new(geometry: Geometry) -> Self {
        let geometry = Geometry { trim_granularity: Some(1), gains_by_merging: false, ..geometry };
        Self { geometry, extents: RefCell::default(), zeros: Segment::from_static(onego_buf::zeros()) }
    }

    /// Returns the bytes of memory that the data takes.
    pub fn pinned(&self) -> u64 {
        self.extents.borrow().pinned()
    }

    /// Returns another device with the same bytes, which share their memory until one of the devices changes them.
    pub(crate) fn copied(&self) -> Self {
        Self { geometry: self.geometry, extents: self.extents.clone(), zeros: self.zeros.clone() }
    }

    pub(crate) fn carry_out(&self, offset: u64, op: Op, flags: Flags) -> Result<Outcome, Error> {
        let mut extents = self.extents.borrow_mut();
        match op {
            Op::Read { length } => Ok(Outcome::Data(extents.read(offset, length, &self.zeros))),
            Op::ReadInto { mut buffer } => {
                extents.read(offset, buffer.len() as u64, &self.zeros).copy_to(&mut buffer);
                Ok(Outcome::Filled(buffer))
            }
            Op::Write { data } => {
                extents.write(offset, data);
                Ok(Outcome::Done)
            }
            Op::Flush => Ok(Outcome::Done),
            // Allocated space holds zeros, as on a disk.
            Op::Zero { .. } if flags.no_hole && flags.fast => {
                Err(Error::Unsupported("allocate zeros faster than it writes them"))
            }
            Op::Zero { length } if flags.no_hole => {
                extents.write(offset, zeros(length));
                Ok(Outcome::Done)
            }
            Op::Trim { length } | Op::Zero { length } => {
                extents.remove(offset, length);
                Ok(Outcome::Done)
            }
            Op::Status { length } => Ok(Outcome::Status(allocated(&extents, offset, length))),
        }
    }
}

fn allocated(extents: &Extents, offset: u64, length: u64) -> Vec<StatusExtent> {
    let mut runs = Vec::new();
    let mut at = offset;
    for (start, len) in extents.runs(offset, length) {
        if runs.len() + 2 > StatusExtent::MOST {
            return runs;
        }
        StatusExtent::append(&mut runs, start - at, BlockStatus::HOLE);
        StatusExtent::append(&mut runs, len, BlockStatus::DATA);
        at = start + len;
    }
    StatusExtent::append(&mut runs, offset + length - at, BlockStatus::HOLE);
    runs
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        // Making a hole is immediate if it frees few pieces.
        let few = self.extents.borrow().pieces() <= FEW_PIECES;
        Geometry { max_hole: if few { u64::MAX } else { 0 }, ..self.geometry }
    }

    fn submit(&self, now: Time, request: Request) {
        let result = self.geometry.check(&request);
        let Request { offset, op, flags, caller } = request;
        caller.complete(now, result.and_then(|()| self.carry_out(offset, op, flags)));
    }
}
