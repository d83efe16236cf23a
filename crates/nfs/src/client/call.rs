//! What a client is asked, and what comes of it.

use super::Error;
use crate::rpc::Procedure;
use crate::v3::Status;
use crate::xdr::{Body as _, Reader, Writer, Xdr as _};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Decoded, Time};

/// Bytes of results that are short: everything but lists of names, and what is read.
const RESULTS: usize = 512;

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
    /// Where the payload of the results goes. It comes back with the reply.
    pub sink: Option<SegmentMut>,
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
        let (mut writer, mut payload) = (Writer::new(), List::new());
        args.write(&mut writer, &mut payload);
        Self {
            program: P::PROGRAM,
            version: P::VERSION,
            procedure: P::NUMBER,
            args: writer,
            payload,
            sink: None,
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
    /// The sink that it was given, as long as it was.
    pub sink: Option<SegmentMut>,
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

    /// Decodes results whose payload is in the sink, and says how many bytes of it.
    pub fn read_front<R>(&self, read: impl FnOnce(&mut Reader<'_>) -> Decoded<R>) -> Decoded<(R, usize)> {
        let mut r = Reader::new(&self.front);
        let results = read(&mut r)?;
        r.finish("results")?;
        Ok((results, self.filled))
    }
}
