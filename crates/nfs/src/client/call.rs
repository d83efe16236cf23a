//! Calls, their results, and their completions.

use super::error::Error;
use crate::rpc::Procedure;
use crate::v3::Status;
use crate::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Decoded, Time};

/// Maximum encoded size of short results: everything except directory listings and read data.
const RESULTS: usize = 512;

/// Destination of a result's payload.
#[derive(Debug, Default)]
pub enum Sink {
    /// The reply carries the payload, in the memory in which it was received.
    #[default]
    None,
    /// This buffer, which the completion returns.
    Buffer(SegmentMut),
    /// Memory from the pool for payloads of at most this many bytes. Over TCP the client allocates when the payload
    /// arrives, and leaves short payloads in the receive buffer that they share with other replies; over RDMA it must
    /// allocate in advance.
    Fresh(usize),
}

/// A call to make.
#[derive(Debug)]
pub struct Call {
    /// RPC program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Encoded arguments, without their payload.
    pub args: Writer,
    /// Payload of the arguments.
    pub payload: List,
    /// Destination of the results' payload.
    pub sink: Sink,
    /// Maximum size of the results in bytes, without the part that goes to `sink`.
    pub results_max: usize,
    /// Time at which the call fails without a reply. `None` waits until the server is back.
    pub deadline: Option<Time>,
    /// Whether the call fails if no connection can be opened.
    pub soft: bool,
}

impl Call {
    /// Creates a call of the procedure `P`.
    pub fn new<P: Procedure>(args: &P::Args) -> Self {
        Self::new_in::<P>(Writer::new(), args)
    }

    pub(super) fn new_in<P: Procedure>(mut memory: Writer, args: &P::Args) -> Self {
        let mut payload = List::new();
        args.write(&mut memory, &mut payload);
        Self {
            program: P::PROGRAM,
            version: P::VERSION,
            procedure: P::NUMBER,
            args: memory,
            payload,
            sink: Sink::None,
            results_max: RESULTS,
            deadline: None,
            soft: false,
        }
    }
}

/// A finished call.
#[derive(Debug)]
pub struct Completion<T> {
    /// The caller's name for the call.
    pub ticket: T,
    /// The results, or the reason that there are none.
    pub result: Result<Reply, Error>,
    /// The caller's buffer at its full length, or fresh memory that starts with the payload.
    pub sink: Option<SegmentMut>,
    /// Payload of the call's arguments.
    pub payload: List,
}

/// The results of a call.
#[derive(Debug)]
pub struct Reply {
    pub(super) front: Segment,
    /// The part of the payload that is not in the sink.
    pub(super) payload: List,
    pub(super) filled: usize,
}

impl Reply {
    /// Decodes the results of the procedure `P`. The call must have been made without a sink.
    pub fn read<P: Procedure>(self) -> Decoded<P::Results> {
        P::Results::read_all(&self.front, self.payload)
    }

    /// Returns the error status of an NFS procedure's results; `None` means success.
    pub fn status(&self) -> Decoded<Option<Status>> {
        let mut r = Reader::new(&self.front);
        if r.take_ok()? { Ok(None) } else { Status::decode(&mut r).map(Some) }
    }

    /// Decodes results without their payload; also returns the payload's length in bytes.
    pub fn read_front<R>(&self, read: impl FnOnce(&mut Reader<'_>) -> Decoded<R>) -> Decoded<(R, usize)> {
        let mut r = Reader::new(&self.front);
        let results = read(&mut r)?;
        r.finish("results")?;
        Ok((results, self.filled + self.payload.len()))
    }
}
