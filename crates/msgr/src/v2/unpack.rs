//! Decompression of complete frames.
//!
//! Source: ceph `src/msg/async/frames_v2.cc`, `src/msg/async/compression_onwire.cc`.
//!
//! A preamble has the compressed lengths of the segments. Decompressed lengths are checked against the limits of
//! uncompressed segments before memory is allocated for them. Payloads may have a lower limit: a few KiB decompress to
//! hundreds of MiB.

use super::header::HEADER_LEN;
use super::input::{HEADER_SIZE, PARTS};
use crate::compression::Method;
use crate::compression::codec::{Broken, Decoder};
use crate::config::Limits;
use crate::error::Error;
use crate::message::{Header, Message, Placer};
use crate::receive::memory::PartMemory;
use onego_buf::{List, Pool, Segment, SegmentMut};

#[derive(Debug)]
pub(super) struct Unpacker {
    decoder: Decoder,
    limits: Limits,
    memory: PartMemory,
    /// First segment of the current message, still compressed.
    first: Segment,
    /// Last decompressed message, until it is taken.
    message: Option<Message>,
}

impl Unpacker {
    /// Returns `None` if out of memory.
    pub(super) fn new(method: Method, limits: Limits, pool: Pool) -> Option<Self> {
        Some(Self {
            decoder: Decoder::new(method)?,
            limits,
            memory: PartMemory::new(pool),
            first: Segment::from_static(b""),
            message: None,
        })
    }

    pub(super) fn control(&mut self, payload: &[u8]) -> Result<Segment, Error> {
        self.segment("a control frame", payload, self.limits.control)
    }

    pub(super) fn begin(&mut self, first: Segment) {
        self.first = first;
    }

    /// Decompresses a complete message with the compressed parts in `packed`. Returns its header;
    /// [`take_message`](Self::take_message) returns the message. On an error, the buffer given for the payload can
    /// still be taken.
    pub(super) fn message(&mut self, packed: &Message, placer: &mut dyn Placer) -> Result<Header, Error> {
        let first = std::mem::replace(&mut self.first, Segment::from_static(b""));
        let header = self.segment("a message's header", &first, HEADER_LEN as u32)?;
        let header = Header::from_wire(header.first_chunk::<HEADER_LEN>().ok_or(HEADER_SIZE)?)?;
        let front = self.segment(PARTS[0], &packed.front, self.limits.front)?;
        let middle =
            self.segment(PARTS[1], packed.middle.as_deref().unwrap_or_default(), self.limits.middle)?;
        let middle = Some(middle).filter(|middle| !middle.is_empty());
        let message = self.message.insert(Message {
            header,
            front,
            middle,
            data: List::new(),
            placed: None,
            discarded: 0,
        });
        let whole = contiguous(&packed.data);
        if whole.is_empty() {
            return Ok(header);
        }
        let bound = self.limits.data.min(self.limits.unpacked);
        let broken = broken(PARTS[2], bound);
        let len = match self.decoder.measure(&whole, bound as usize) {
            Ok(len) => len,
            Err(Broken::TooLong(len)) if len <= self.limits.discard.into() => {
                message.discarded = len as usize;
                return Ok(header);
            }
            Err(error) => return Err(broken(error)),
        };
        if let Some(place) = placer.place(&header, &message.front, len) {
            assert_eq!(place.len(), len, "a place has the size of the payload");
            self.decoder.decode(&whole, message.placed.insert(place)).map_err(broken)?;
        } else {
            let mut data = self.memory.get(len);
            self.decoder.decode(&whole, &mut data).map_err(broken)?;
            message.data.push(data);
        }
        Ok(header)
    }

    pub(super) fn take_message(&mut self) -> Option<Message> {
        self.message.take()
    }

    /// Takes the buffer of a message whose payload could not be decompressed.
    pub(super) fn take_place(&mut self) -> Option<(Header, SegmentMut)> {
        let message = self.message.take()?;
        Some((message.header, message.placed?))
    }

    fn segment(&mut self, what: &'static str, packed: &[u8], bound: u32) -> Result<Segment, Error> {
        if packed.is_empty() {
            return Ok(Segment::from_static(b""));
        }
        let broken = broken(what, bound);
        let len = self.decoder.measure(packed, bound as usize).map_err(&broken)?;
        let mut plain = self.memory.get(len);
        self.decoder.decode(packed, &mut plain).map_err(broken)?;
        Ok(plain.freeze())
    }
}

/// Maps a decompression failure of a segment limited to `bound` bytes.
fn broken(what: &'static str, bound: u32) -> impl Fn(Broken) -> Error {
    move |broken| match broken {
        Broken::TooLong(len) => Error::TooLong { what, len, bound: bound.into() },
        Broken::Damaged(reason) => Error::Compressed { what, reason },
    }
}

/// Returns a payload as one segment, copied only if it is fragmented.
fn contiguous(data: &List) -> Segment {
    let mut pieces = data.segments();
    match (pieces.next(), pieces.next()) {
        (None, _) => Segment::from_static(b""),
        (Some(piece), None) => piece.clone(),
        _ => data.to_vec().into(),
    }
}
