use crate::status::StatusExtent;
use onego_buf::{List, SegmentMut};

/// What came of a request.
#[derive(Debug)]
pub enum Outcome {
    /// A write, flush, trim or zeroes: it is done.
    Done,
    /// The bytes of a read.
    Data(List),
    /// The caller's buffer, filled.
    Filled(SegmentMut),
    /// Runs of bytes from the offset of the request on.
    Status(Vec<StatusExtent>),
}
