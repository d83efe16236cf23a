use crate::status::StatusExtent;
use onego_buf::{List, SegmentMut};

/// Outcome of a request.
#[derive(Debug)]
pub enum Outcome {
    /// A write, flush, trim or zero is done.
    Done,
    /// The bytes of a read.
    Data(List),
    /// The caller's buffer, filled.
    Filled(SegmentMut),
    /// Runs of bytes from the request's offset on.
    Status(Vec<StatusExtent>),
}
