//! What a client is asked, and what comes of it.

use super::error::Error;
use crate::rpc::Procedure;
use crate::v3::Status;
use crate::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Decoded, Time};

/// Bytes of results that are short: everything but lists of names, and what is read.
const RESULTS: usize = 512;

/// Where the payload of results goes.
#[derive(Debug, Default)]
pub enum Sink {
    /// It comes with the reply, in the memory in which it was received.
    #[default]
    None,
    /// To this buffer, which comes back with the reply.
    Buffer(SegmentMut),
    /// To memory of its own, if it is long. The number is its greatest length; the client takes the memory only when the
    /// payload comes. (Over RDMA the memory has to be there before.) A short payload comes with the reply, in the memory in
    /// which it was received together with others.
    Fresh(usize),
}

/// A call that is to be made.
#[derive(Debug)]
pub struct Call {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The encoded arguments, without their payload.
    pub args: Writer,
    /// Their payload.
    pub payload: List,
    /// Where the payload of the results goes.
    pub sink: Sink,
    /// The most bytes of the results, without what goes to `sink`.
    pub results_max: usize,
    /// When the caller gives up waiting. `None`: it waits until the server is there again.
    pub deadline: Option<Time>,
    /// Is it to fail if no connection can be opened?
    pub soft: bool,
}

impl Call {
    /// A call of the procedure `P`.
    pub fn new<P: Procedure>(args: &P::Args) -> Self {
        Self::new_in::<P>(Writer::new(), args)
    }

    /// The same, with its arguments encoded in memory of an earlier call.
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

/// A call is done with.
#[derive(Debug)]
pub struct Completion<T> {
    /// What the caller named it.
    pub ticket: T,
    /// What came of it.
    pub result: Result<Reply, Error>,
    /// The buffer that it was given, as long as it was; or fresh memory with the payload at its start.
    pub sink: Option<SegmentMut>,
    /// The payload of the call.
    pub payload: List,
}

/// Results.
#[derive(Debug)]
pub struct Reply {
    /// Encoded, without their payload.
    pub(super) front: Segment,
    /// Their payload, as far as it is not in the sink.
    pub(super) payload: List,
    /// Bytes of the payload that are in the sink.
    pub(super) filled: usize,
}

impl Reply {
    /// Decodes the results of the procedure `P`, for a call that gave no sink.
    pub fn read<P: Procedure>(self) -> Decoded<P::Results> {
        P::Results::read_all(&self.front, self.payload)
    }

    /// The status with which the results of a procedure of NFS begin; `None`: it went well.
    pub fn status(&self) -> Decoded<Option<Status>> {
        let mut r = Reader::new(&self.front);
        if r.take_ok()? { Ok(None) } else { Status::decode(&mut r).map(Some) }
    }

    /// Decodes results without their payload, and says how many bytes it has.
    pub fn read_front<R>(&self, read: impl FnOnce(&mut Reader<'_>) -> Decoded<R>) -> Decoded<(R, usize)> {
        let mut r = Reader::new(&self.front);
        let results = read(&mut r)?;
        r.finish("results")?;
        Ok((results, self.filled + self.payload.len()))
    }
}
