use crate::device::Device;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::outcome::Outcome;
use crate::request::{Op, Request};
use crate::status::{BlockStatus, StatusExtent};
use onego_buf::List;
use onego_wire::Time;

/// Returns a list of zeros that takes no memory; it stands for bytes that a device does not hold.
pub fn zeros(length: u64) -> List {
    let mut list = List::new();
    list.push_zeros(length);
    list
}

/// A device that discards writes and reads as zeros: it measures the cost of everything except the device.
#[derive(Debug)]
pub struct Null {
    geometry: Geometry,
}

impl Null {
    /// Creates a device of that geometry.
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry: Geometry { max_hole: u64::MAX, max_zero: u64::MAX, ..geometry } }
    }

    fn outcome(&self, op: Op) -> Outcome {
        match op {
            Op::Read { length } => Outcome::Data(zeros(length)),
            Op::ReadInto { mut buffer } => {
                buffer.fill(0);
                Outcome::Filled(buffer)
            }
            Op::Write { .. } | Op::Flush | Op::Trim { .. } | Op::Zero { .. } => Outcome::Done,
            Op::Status { length } => {
                Outcome::Status(vec![StatusExtent { length, status: BlockStatus::HOLE }])
            }
        }
    }
}

impl Device for Null {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, now: Time, request: Request) {
        let Request { op, caller, .. } = match self.geometry.check(&request) {
            Ok(()) => request,
            Err(error) => return request.complete(now, Err::<Outcome, Error>(error)),
        };
        caller.complete(now, Ok(self.outcome(op)));
    }
}
