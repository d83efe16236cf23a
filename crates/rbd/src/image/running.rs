//! Callers' requests in flight.

use crate::error::Error;
use crate::flush::WriteEpoch;
use crate::request::{Allocated, Outcome};
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{Error as ClientError, OpReply, Request};
use onego_ceph::ops::{Op, Stat};
use onego_ceph::rbd::Layout;
use onego_msgr::encoding::Decode as _;
use smallvec::SmallVec;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct InflightIo<T> {
    pub(super) token: T,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) outstanding: u32,
    pub(super) error: Option<Error>,
    pub(super) gather: Gather,
}

/// Results of a request so far, piece by piece in the order of the image's bytes.
#[derive(Debug)]
pub(super) enum Gather {
    /// A change, with its pieces that need more than one request.
    Changes {
        epoch: WriteEpoch,
        special: Vec<SpecialPiece>,
    },
    Buffer(SmallVec<[Option<SegmentMut>; 1]>),
    /// Each piece returns its part of the list, of the given length.
    Lists(SmallVec<[(u64, List); 1]>),
    /// Each piece returns its part of whole sectors, of which some bytes are wanted.
    Sectors {
        parts: SmallVec<[(u64, List); 1]>,
        cut: Box<Cut>,
    },
    Sizes(Vec<(ObjectPiece, u64)>),
}

#[derive(Debug)]
pub(super) struct Cut {
    pub(super) skip: usize,
    pub(super) length: usize,
    pub(super) buffer: Option<SegmentMut>,
}

impl Cut {
    fn outcome(self, sectors: &List) -> Outcome {
        let data = sectors.slice(self.skip, self.length);
        match self.buffer {
            None => Outcome::Data(data),
            Some(mut buffer) => {
                data.copy_to(&mut buffer);
                Outcome::Buffer(buffer)
            }
        }
    }
}

/// A change of an object that may take more than one request.
#[derive(Debug, Clone)]
pub(super) struct SpecialPiece {
    pub(super) index: u32,
    pub(super) object: u64,
    pub(super) op: Op,
    pub(super) condition: Option<Op>,
    /// It fails where the object does not exist, because the parent's bytes must be copied first.
    pub(super) is_guarded: bool,
    /// The object map then records the object as missing.
    pub(super) is_removal: bool,
    /// For a copy without a change: the object equals that of the newest snapshot, as recorded in the object map.
    pub(super) is_clean: bool,
}

impl SpecialPiece {
    /// Creates a piece that needs the parent's bytes in its object.
    pub(super) fn guarded(index: u32, object: u64, op: Op) -> Self {
        Self { index, object, op, condition: None, is_guarded: true, is_removal: false, is_clean: false }
    }

    pub(super) fn extend(&self, request: Request) -> Request {
        let request = match &self.condition {
            Some(condition) => request.and(condition.clone()),
            None => request,
        };
        request.and(self.op.clone())
    }

    /// Returns whether the piece only wants a copy of the parent's bytes.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.op, Op::Stat)
    }
}

#[derive(Debug, Default)]
pub(super) struct ObjectCopy {
    pub(super) waiting: Vec<(u32, SpecialPiece)>,
    /// Includes the bytes that the source's ancestors show in it.
    pub(super) is_whole: bool,
    /// Snapshots whose object maps do not record the object yet.
    pub(super) marks: usize,
    /// Goes out when they all do.
    pub(super) request: Option<Box<Request>>,
}

impl ObjectCopy {
    pub(super) fn is_compared(&self) -> bool {
        self.waiting.iter().any(|(_, piece)| piece.condition.is_some())
    }
}

/// Contiguous bytes of one object that are also contiguous in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectPiece {
    pub(super) object: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) at: u64,
}

impl ObjectPiece {
    pub(super) fn read(&self) -> Op {
        Op::Read { offset: self.offset, length: self.length }
    }

    fn split(&self, size: u64) -> [Allocated; 2] {
        let there = size.saturating_sub(self.offset).min(self.length);
        [
            Allocated { length: there, is_there: true },
            Allocated { length: self.length - there, is_there: false },
        ]
    }
}

/// Splits a range of the image into pieces, in the order of the image's bytes.
#[inline]
pub(super) fn pieces(layout: &Layout, offset: u64, length: u64) -> SmallVec<[ObjectPiece; 2]> {
    let mut pieces: SmallVec<[ObjectPiece; 2]> = SmallVec::new();
    for extent in layout.map(offset, length) {
        let mut within = extent.offset;
        for range in &extent.buffer {
            let length = range.end - range.start;
            let at = offset + range.start;
            pieces.push(ObjectPiece { object: extent.object, offset: within, length, at });
            within += length;
        }
    }
    pieces.sort_unstable_by_key(|piece| piece.at);
    pieces
}

impl<T> InflightIo<T> {
    /// Handles the completion of a piece. `None`: its object does not exist.
    pub(super) fn completed(
        &mut self,
        index: u32,
        reply: Result<Option<OpReply>, ClientError>,
        buffer: Option<SegmentMut>,
    ) {
        self.outstanding -= 1;
        let index = index as usize;
        if let (Gather::Buffer(parts), Some(mut buffer)) = (&mut self.gather, buffer) {
            if let Ok(reply) = &reply {
                buffer[reply.as_ref().map_or(0, |reply| reply.filled)..].fill(0);
            }
            parts[index] = Some(buffer);
        }
        match (reply, &mut self.gather) {
            (Err(error), _) => self.fail(error.into()),
            (Ok(reply), Gather::Lists(parts) | Gather::Sectors { parts, .. }) => {
                let (length, list) = &mut parts[index];
                if let Some(op) = reply.and_then(|reply| reply.ops.into_iter().next()) {
                    *list = op.output;
                }
                fill_up(list, *length);
            }
            (Ok(reply), Gather::Sizes(sizes)) => {
                // A missing object has no output, and holds nothing.
                match reply
                    .and_then(|mut reply| reply.ops.pop())
                    .map(|op| Stat::from_bytes(&op.output.to_segment()))
                {
                    None => {}
                    Some(Ok(stat)) => sizes[index].1 = stat.size,
                    Some(Err(_)) => self.fail(ClientError::Mismatch("it lacks the object's size").into()),
                }
            }
            (Ok(_), Gather::Changes { .. } | Gather::Buffer(_)) => {}
        }
    }

    pub(super) fn inherited(&mut self, index: u32, bytes: Result<List, Error>) {
        self.outstanding -= 1;
        match (bytes, &mut self.gather) {
            (Err(error), _) => self.fail(error),
            (Ok(bytes), Gather::Lists(parts) | Gather::Sectors { parts, .. }) => {
                parts[index as usize].1 = bytes;
            }
            (Ok(bytes), Gather::Buffer(parts)) => {
                if let Some(buffer) = &mut parts[index as usize] {
                    bytes.copy_to(buffer);
                }
            }
            (Ok(_), Gather::Changes { .. } | Gather::Sizes(_)) => {}
        }
    }

    pub(super) fn keep(&mut self, piece: SpecialPiece) {
        if let Gather::Changes { special, .. } = &mut self.gather {
            special.push(piece);
        }
    }

    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub(super) fn is_change(&self) -> bool {
        matches!(self.gather, Gather::Changes { .. })
    }
}

impl Gather {
    pub(super) fn outcome(self) -> Result<Outcome, Error> {
        Ok(match self {
            Self::Changes { .. } => Outcome::Done,
            Self::Buffer(parts) => Outcome::Buffer(join(parts)?),
            Self::Lists(parts) => Outcome::Data(chain(parts.into_iter().map(|(_, part)| part))),
            Self::Sectors { parts, cut } => cut.outcome(&chain(parts.into_iter().map(|(_, part)| part))),
            Self::Sizes(sizes) => {
                Outcome::Allocated(sizes.iter().flat_map(|(piece, size)| piece.split(*size)).collect())
            }
        })
    }
}

pub(super) fn chain(parts: impl IntoIterator<Item = List>) -> List {
    let mut all = List::new();
    parts.into_iter().for_each(|part| all.append(part));
    all
}

pub(super) fn collect(data: &List, ranges: &[Range<u64>]) -> List {
    match ranges {
        [whole] if whole.end - whole.start == data.len() as u64 => data.clone(),
        _ => {
            chain(ranges.iter().map(|part| data.slice(part.start as usize, (part.end - part.start) as usize)))
        }
    }
}

/// Pads the list with zeros to `length` bytes.
pub(super) fn fill_up(list: &mut List, length: u64) {
    list.push_zeros(length.saturating_sub(list.len() as u64));
}

fn join(parts: SmallVec<[Option<SegmentMut>; 1]>) -> Result<SegmentMut, Error> {
    let lost = || Error::Client(ClientError::Mismatch("a part of the buffer is lost"));
    let mut parts = parts.into_iter();
    let mut whole = parts.next().flatten().ok_or_else(lost)?;
    for part in parts {
        whole.try_join(part.ok_or_else(lost)?).map_err(|_| lost())?;
    }
    Ok(whole)
}
