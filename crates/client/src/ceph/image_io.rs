//! Reads and writes of an image as requests to its objects. Runs on the reactor, without futures.

use super::done::{Allocated, OTHER_KIND, ReplyTo};
use super::error::Error;
use super::flush::{WriteEpoch, Writes};
use onego_buf::{List, Segment, SegmentMut};
use onego_ceph::client::{self, Error as ProtocolError, OpReply, Request, errno};
use onego_ceph::ops::{Op, Stat};
use onego_ceph::rbd::{DataNames, Extent, Layout};
use onego_ceph::types::SnapContext;
use onego_msgr::encoding::Decode as _;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of one read or write, 64 MiB: beyond what a caller gains by, and within the client's bound on bytes in
/// flight.
pub const MAX_IO: u64 = 64 << 20;

/// Most objects whose sizes one request asks for: enough for 256 MiB of an image with objects of the usual size.
pub(crate) const STATUS_OBJECTS: usize = 64;

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

/// Something to do with an image, and where its result goes.
#[derive(Debug)]
pub(crate) enum IoOp {
    /// A request to its objects.
    Io(Io),
    /// Completes when all writes submitted before are durable.
    Flush { done: ReplyTo<()> },
}

/// A request to an image's objects; offsets and lengths in bytes.
#[derive(Debug)]
pub(crate) enum Io {
    /// Fills the buffer from `offset` on.
    ReadInto { offset: u64, buffer: SegmentMut, done: ReplyTo<SegmentMut> },
    /// Gives the bytes as a list of what was received.
    Read { offset: u64, length: u64, done: ReplyTo<List> },
    /// Gives the bytes that objects hold, of up to [`STATUS_OBJECTS`] objects: the runs from `offset` on that are there.
    Allocated { offset: u64, length: u64, done: ReplyTo<Vec<Allocated>> },
    /// Writes the bytes.
    Write { offset: u64, data: List, done: ReplyTo<()> },
    /// The bytes are zeros from now on, and take no room where that can be.
    Zero { offset: u64, length: u64, done: ReplyTo<()> },
}

impl IoOp {
    pub(crate) fn read(offset: u64, length: u64, done: ReplyTo<List>) -> Self {
        Self::Io(Io::Read { offset, length, done })
    }

    pub(crate) fn read_into(offset: u64, buffer: SegmentMut, done: ReplyTo<SegmentMut>) -> Self {
        Self::Io(Io::ReadInto { offset, buffer, done })
    }

    pub(crate) fn write(offset: u64, data: List, done: ReplyTo<()>) -> Self {
        Self::Io(Io::Write { offset, data, done })
    }

    pub(crate) fn zero(offset: u64, length: u64, done: ReplyTo<()>) -> Self {
        Self::Io(Io::Zero { offset, length, done })
    }

    /// Does it change the image?
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Io(Io::Write { .. } | Io::Zero { .. }))
    }

    /// Fails unless the request lies within the image.
    pub(crate) fn check(&self, shape: &Shape) -> Result<(), Error> {
        let (offset, length) = match self {
            Self::Io(Io::ReadInto { offset, buffer, .. }) => (*offset, buffer.len() as u64),
            Self::Io(Io::Write { offset, data, .. }) => (*offset, data.len() as u64),
            Self::Io(
                Io::Read { offset, length, .. }
                | Io::Allocated { offset, length, .. }
                | Io::Zero { offset, length, .. },
            ) => (*offset, *length),
            Self::Flush { .. } => (0, 0),
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
}

/// What has come of a request so far, piece by piece in the order of the image's bytes, and where it goes.
enum Gather {
    /// Nothing is read.
    Changes(WriteEpoch, ReplyTo<()>),
    /// Each piece fills its part of the caller's buffer.
    Buffer(SmallVec<[Option<SegmentMut>; 1]>, ReplyTo<SegmentMut>),
    /// Each piece gives its part of the list.
    Lists(SmallVec<[(u64, List); 1]>, ReplyTo<List>),
    /// Each piece gives the size of its object.
    Sizes(Vec<(Piece, u64)>, ReplyTo<Vec<Allocated>>),
}

/// The result of a request to an image, and where it goes.
pub(crate) enum Finished {
    Changed(ReplyTo<()>, Result<(), Error>),
    Filled(ReplyTo<SegmentMut>, Result<SegmentMut, Error>),
    Read(ReplyTo<List>, Result<List, Error>),
    Found(ReplyTo<Vec<Allocated>>, Result<Vec<Allocated>, Error>),
}

impl ImageIo {
    /// Starts a request; `submit` is called with each request to an object and its number.
    pub(crate) fn start(shape: Arc<Shape>, io: Io, mut submit: impl FnMut(Request, u32)) -> Self {
        let mut outstanding = 0;
        let mut submit = |request| {
            submit(request, outstanding);
            outstanding += 1;
        };
        let gather = match io {
            Io::ReadInto { offset, mut buffer, done } => {
                let mut parts = SmallVec::new();
                for piece in shape.pieces(offset, buffer.len() as u64) {
                    let part = buffer.split_to(piece.length as usize);
                    parts.push(None);
                    submit(Request { read_into: Some(part), ..shape.read(&piece) });
                }
                if parts.is_empty() {
                    parts.push(Some(buffer));
                }
                Gather::Buffer(parts, done)
            }
            Io::Read { offset, length, done } => {
                let mut parts = SmallVec::new();
                for piece in shape.pieces(offset, length) {
                    parts.push((piece.length, List::new()));
                    submit(shape.read(&piece));
                }
                Gather::Lists(parts, done)
            }
            Io::Allocated { offset, length, done } => {
                let mut sizes = Vec::new();
                let length = length.min(STATUS_OBJECTS as u64 * shape.layout.object_size());
                for piece in shape.pieces(offset, length).take(STATUS_OBJECTS) {
                    submit(shape.request(piece.object, Op::Stat));
                    sizes.push((piece, 0));
                }
                Gather::Sizes(sizes, done)
            }
            Io::Write { offset, data, done } => {
                for extent in shape.layout.map(offset, data.len() as u64) {
                    let data = collect(&data, &extent.buffer);
                    submit(shape.write(extent.object, Op::Write { offset: extent.offset, data }));
                }
                Gather::Changes(shape.writes.begin(), done)
            }
            Io::Zero { offset, length, done } => {
                for extent in shape.layout.map(offset, length) {
                    submit(shape.write(extent.object, shape.zero(&extent)));
                }
                Gather::Changes(shape.writes.begin(), done)
            }
        };
        Self { shape, outstanding, error: None, gather }
    }

    /// Have all requests completed?
    pub(crate) fn is_done(&self) -> bool {
        self.outstanding == 0
    }

    /// Does nobody wait for it any more?
    pub(crate) fn is_abandoned(&self) -> bool {
        match &self.gather {
            Gather::Changes(_, done) => done.is_abandoned(),
            Gather::Buffer(_, done) => done.is_abandoned(),
            Gather::Lists(_, done) => done.is_abandoned(),
            Gather::Sizes(_, done) => done.is_abandoned(),
        }
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
        if let (Gather::Buffer(parts, _), Some(mut buffer)) = (&mut self.gather, buffer) {
            if let Ok(reply) = &reply {
                buffer[reply.filled..].fill(0);
            }
            parts[index] = Some(buffer);
        }
        match (reply, &mut self.gather) {
            (Err(error), _) => {
                self.error.get_or_insert(error);
            }
            (Ok(mut reply), Gather::Lists(parts, _)) => {
                let (length, list) = &mut parts[index];
                if let Some(op) = reply.ops.first_mut() {
                    *list = std::mem::take(&mut op.output);
                }
                fill_up(list, *length);
            }
            (Ok(reply), Gather::Sizes(sizes, _)) => {
                // An object that is not there has no output, and holds nothing.
                match reply.ops.first().map(|op| Stat::from_bytes(&op.output.to_segment())) {
                    None => {}
                    Some(Ok(stat)) => sizes[index].1 = stat.size,
                    Some(Err(_)) => {
                        self.error.get_or_insert(ProtocolError::Mismatch("it has no size of an object"));
                    }
                }
            }
            (Ok(_), Gather::Changes(..) | Gather::Buffer(..)) => {}
        }
    }

    /// Ends the request: its result, and the flushes that waited for it.
    pub(crate) fn finish(self) -> (Finished, Vec<ReplyTo<()>>) {
        let failed = self.error.map_or(Ok(()), |error| Err(Error::Protocol(error)));
        match self.gather {
            Gather::Changes(epoch, done) => (Finished::Changed(done, failed), self.shape.writes.end(epoch)),
            Gather::Buffer(parts, done) => {
                (Finished::Filled(done, failed.and_then(|()| join(parts))), Vec::new())
            }
            Gather::Lists(parts, done) => {
                let joined = failed.map(|()| {
                    let mut all = List::new();
                    parts.into_iter().for_each(|(_, part)| all.append(part));
                    all
                });
                (Finished::Read(done, joined), Vec::new())
            }
            Gather::Sizes(sizes, done) => {
                let found =
                    failed.map(|()| sizes.iter().flat_map(|(piece, size)| piece.split(*size)).collect());
                (Finished::Found(done, found), Vec::new())
            }
        }
    }
}

/// A piece of a read: neighbouring bytes of one object that are neighbours in the image too.
struct Piece {
    object: u64,
    offset: u64,
    length: u64,
}

impl Piece {
    /// Its bytes before the end of an object of that size, and those behind it.
    fn split(&self, size: u64) -> [Allocated; 2] {
        let there = size.saturating_sub(self.offset).min(self.length);
        [
            Allocated { length: there, is_there: true },
            Allocated { length: self.length - there, is_there: false },
        ]
    }
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
fn accept(outcome: client::Outcome) -> Result<OpReply, ProtocolError> {
    match outcome {
        client::Outcome::Reply(reply) if reply.result == errno::ENOENT => Ok(OpReply::default()),
        client::Outcome::Reply(reply) => reply.ok(),
        _ => Err(OTHER_KIND),
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
