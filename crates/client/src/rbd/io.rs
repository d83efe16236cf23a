//! Reads and writes of an image as requests to its objects. Runs on the reactor, without futures.

use crate::Error;
use crate::core::{Done, Outcome};
use crate::rbd::flush::{WriteEpoch, Writes};
use onego_buf::{List, Segment, SegmentMut};
use onego_ceph::client::{self, Error as ProtocolError, Reply, Request, errno};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, Extent, Layout};
use onego_ceph::types::SnapContext;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of one read or write, 64 MiB: beyond what a caller gains by, and within the client's bound on bytes in
/// flight.
pub const MAX_IO: u64 = 64 << 20;

/// Zeros that stand for what an image does not hold.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What a request to an image has to know of it.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The pool of the data objects.
    pub(crate) pool: i64,
    pub(crate) namespace: String,
    /// Flags of all requests.
    pub(crate) flags: u32,
    pub(crate) names: DataNames,
    pub(crate) layout: Layout,
    pub(crate) snap_context: SnapContext,
    /// Bytes of the image. It changes when the image is resized.
    pub(crate) size: AtomicU64,
    pub(crate) writes: Writes,
}

/// A request to an image; offsets and lengths in bytes.
#[derive(Debug)]
pub(crate) enum IoOp {
    /// Fills the buffer from `offset` on.
    ReadInto { offset: u64, buffer: SegmentMut },
    /// Gives the bytes as a list of what was received.
    Read { offset: u64, length: u64 },
    /// Writes the bytes.
    Write { offset: u64, data: List },
    /// The bytes are zeros from now on, and take no room where that can be.
    Zero { offset: u64, length: u64 },
    /// Completes when all writes submitted before are durable.
    Flush,
}

impl IoOp {
    /// Fails unless the request lies within the image.
    pub(crate) fn check(&self, shape: &Shape) -> Result<(), Error> {
        let (offset, length) = match self {
            Self::ReadInto { offset, buffer } => (*offset, buffer.len() as u64),
            Self::Write { offset, data } => (*offset, data.len() as u64),
            Self::Read { offset, length } | Self::Zero { offset, length } => (*offset, *length),
            Self::Flush => (0, 0),
        };
        let size = shape.size.load(Ordering::Relaxed);
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::OutOfBounds { offset, length, size });
        }
        if length > MAX_IO {
            return Err(Error::Invalid(format!("a request of {length} bytes: the most is {MAX_IO}")));
        }
        Ok(())
    }
}

/// A request to an image that is under way.
pub(crate) struct ImageIo {
    shape: Arc<Shape>,
    outstanding: u32,
    error: Option<ProtocolError>,
    gather: Gather,
    done: Done,
    write: Option<WriteEpoch>,
}

/// What has come of a request so far, piece by piece in the order of the image's bytes.
enum Gather {
    /// Nothing is read.
    Nothing,
    /// Each piece fills its part of the caller's buffer.
    Buffer(SmallVec<[Option<SegmentMut>; 1]>),
    /// Each piece gives its part of the list.
    Lists(SmallVec<[(u64, List); 1]>),
}

impl ImageIo {
    /// Starts `op`; `submit` is called with each request and its number.
    pub(crate) fn start(
        shape: Arc<Shape>,
        op: IoOp,
        done: Done,
        mut submit: impl FnMut(Request, u32),
    ) -> Self {
        let (mut outstanding, mut write) = (0, None);
        let mut submit = |request| {
            submit(request, outstanding);
            outstanding += 1;
        };
        let gather = match op {
            IoOp::ReadInto { offset, mut buffer } => {
                let mut parts = SmallVec::new();
                for piece in shape.pieces(offset, buffer.len() as u64) {
                    let part = buffer.split_to(piece.length as usize);
                    parts.push(None);
                    submit(Request { read_into: Some(part), ..shape.read(&piece) });
                }
                if parts.is_empty() {
                    parts.push(Some(buffer));
                }
                Gather::Buffer(parts)
            }
            IoOp::Read { offset, length } => {
                let mut parts = SmallVec::new();
                for piece in shape.pieces(offset, length) {
                    parts.push((piece.length, List::new()));
                    submit(shape.read(&piece));
                }
                Gather::Lists(parts)
            }
            IoOp::Write { offset, data } => {
                write = Some(shape.writes.begin());
                for extent in shape.layout.map(offset, data.len() as u64) {
                    let data = collect(&data, &extent.buffer);
                    submit(shape.write(extent.object, Op::Write { offset: extent.offset, data }));
                }
                Gather::Nothing
            }
            IoOp::Zero { offset, length } => {
                write = Some(shape.writes.begin());
                for extent in shape.layout.map(offset, length) {
                    submit(shape.write(extent.object, shape.zero(&extent)));
                }
                Gather::Nothing
            }
            IoOp::Flush => Gather::Nothing,
        };
        Self { shape, outstanding, error: None, gather, done, write }
    }

    /// Have all requests completed?
    pub(crate) fn is_done(&self) -> bool {
        self.outstanding == 0
    }

    /// Does nobody wait for it any more?
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(&self.done, Done::Future(done) if done.is_canceled())
    }

    /// The request with this number has completed.
    pub(crate) fn completed(
        &mut self,
        index: u32,
        outcome: Result<client::Outcome, ProtocolError>,
        buffer: Option<SegmentMut>,
    ) {
        self.outstanding -= 1;
        let index = index as usize;
        let reply = outcome.and_then(accept);
        if let (Gather::Buffer(parts), Some(mut buffer)) = (&mut self.gather, buffer) {
            if let Ok(reply) = &reply {
                buffer[reply.filled..].fill(0);
            }
            parts[index] = Some(buffer);
        }
        match (reply, &mut self.gather) {
            (Err(error), _) => {
                self.error.get_or_insert(error);
            }
            (Ok(mut reply), Gather::Lists(parts)) => {
                let (length, list) = &mut parts[index];
                if let Some(op) = reply.ops.first_mut() {
                    *list = std::mem::take(&mut op.output);
                }
                fill_up(list, *length);
            }
            (Ok(_), Gather::Nothing | Gather::Buffer(_)) => {}
        }
    }

    /// Ends the request: tells its caller, and returns the flushes that waited for it.
    pub(crate) fn finish(self) -> (Done, Result<Outcome, Error>, Vec<Done>) {
        let flushes = self.write.map_or_else(Vec::new, |epoch| self.shape.writes.end(epoch));
        let result = match (self.error, self.gather) {
            (Some(error), _) => Err(Error::Protocol(error)),
            (None, Gather::Nothing) => Ok(Outcome::Done),
            (None, Gather::Buffer(parts)) => join(parts).map(Outcome::Buffer),
            (None, Gather::Lists(parts)) => {
                let mut all = List::new();
                parts.into_iter().for_each(|(_, part)| all.append(part));
                Ok(Outcome::List(all))
            }
        };
        (self.done, result, flushes)
    }
}

/// A piece of a read: neighbouring bytes of one object that are neighbours in the image too.
struct Piece {
    object: u64,
    offset: u64,
    length: u64,
}

impl Shape {
    /// The pieces of a read, in the order of the image's bytes.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let mut pieces: SmallVec<[(u64, Piece); 2]> = SmallVec::new();
        for extent in self.layout.map(offset, length) {
            let mut offset = extent.offset;
            for range in &extent.buffer {
                let length = range.end - range.start;
                pieces.push((range.start, Piece { object: extent.object, offset, length }));
                offset += length;
            }
        }
        pieces.sort_unstable_by_key(|(start, _)| *start);
        pieces.into_iter().map(|(_, piece)| piece)
    }

    fn request(&self, object: u64, op: Op) -> Request {
        let mut request = Request::one(self.pool, self.names.name(object), op);
        request.namespace.clone_from(&self.namespace);
        request.with_flags(self.flags)
    }

    fn read(&self, piece: &Piece) -> Request {
        self.request(piece.object, Op::Read { offset: piece.offset, length: piece.length })
    }

    fn write(&self, object: u64, op: Op) -> Request {
        Request { snap_context: self.snap_context.clone(), ..self.request(object, op) }
    }

    /// The operation that makes a piece of an object read as zeros: the object goes when all of it does, and ends
    /// earlier when its end does.
    fn zero(&self, extent: &Extent) -> Op {
        let to_the_end = extent.offset + extent.length == self.layout.object_size();
        match extent.offset {
            0 if to_the_end => Op::Delete,
            size if to_the_end => Op::Truncate { size },
            offset => Op::Zero { offset, length: extent.length },
        }
    }
}

/// An object that is not there reads as zeros, and nothing has to be cleared in it.
fn accept(outcome: client::Outcome) -> Result<Reply, ProtocolError> {
    match outcome {
        client::Outcome::Reply(reply) if reply.result == errno::ENOENT => Ok(Reply::default()),
        client::Outcome::Reply(reply) => reply.ok(),
        _ => Err(ProtocolError::Mismatch("it is of another kind")),
    }
}

/// The parts of `data` in `ranges`, one behind the other.
fn collect(data: &List, ranges: &[Range<u64>]) -> List {
    match ranges {
        [whole] if whole.end - whole.start == data.len() as u64 => data.clone(),
        _ => {
            let mut part = List::new();
            for range in ranges {
                part.append(data.slice(range.start as usize, (range.end - range.start) as usize));
            }
            part
        }
    }
}

/// Appends zeros until the list has `length` bytes.
fn fill_up(list: &mut List, length: u64) {
    while (list.len() as u64) < length {
        let missing = (length - list.len() as u64).min(ZEROS.len() as u64);
        list.push(Segment::from_static(&ZEROS[..missing as usize]));
    }
}

/// Joins the parts that a buffer was split into.
fn join(parts: SmallVec<[Option<SegmentMut>; 1]>) -> Result<SegmentMut, Error> {
    let lost = || Error::Protocol(ProtocolError::Mismatch("a part of the buffer is lost"));
    let mut parts = parts.into_iter();
    let mut whole = parts.next().flatten().ok_or_else(lost)?;
    for part in parts {
        whole.try_join(part.ok_or_else(lost)?).map_err(|_| lost())?;
    }
    Ok(whole)
}
