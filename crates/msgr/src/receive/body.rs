//! The parts of a message behind its header, as they come in: front, middle, payload.
//!
//! Fronts and payloads are slices of what was received. Only a front that is cut, and a payload that has a place, are
//! copied: the payload only as far as it was here before its place was known.

use super::gather::gather;
use super::place::{self, BULK, Place};
use crate::message::{Header, Message, Placer};
use onego_buf::{Segment, SegmentMut, crc32c};
use onego_wire::{Landing, Pieces};

/// Bytes that are copied to a place and summed up in one go, so that the sum finds them in the first-level cache.
const COPY_CHUNK: usize = 16 << 10;

/// What comes next of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Front,
    Middle,
    Data,
}

/// Which checksums are made of the parts as they come, while they are in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    All,
    AllButData,
    None,
}

/// One body after the other.
#[derive(Debug)]
pub(crate) struct Body {
    stage: Stage,
    lens: [usize; 3],
    /// What checksums start with.
    seed: u32,
    /// Checksums of the parts.
    crcs: [u32; 3],
    sums: Sums,
    /// Does the connection carry bulk at the moment?
    bulk: bool,
    /// What is here of a front or a middle that came in pieces. A copy: slices would keep a block of received memory
    /// for each piece, and end in a copy all the same.
    gathered: Vec<u8>,
    front: Option<Segment>,
    middle: Option<Segment>,
    data: Pieces,
    place: Option<Place>,
}

impl Body {
    /// `seed`: what checksums start with.
    pub(crate) fn new(seed: u32) -> Self {
        Self {
            stage: Stage::Front,
            lens: [0; 3],
            seed,
            crcs: [seed; 3],
            sums: Sums::All,
            bulk: false,
            gathered: Vec::new(),
            front: None,
            middle: None,
            data: Pieces::default(),
            place: None,
        }
    }

    /// A body with parts of these lengths begins.
    #[inline]
    pub(crate) fn begin(&mut self, lens: [usize; 3], sums: Sums) {
        self.stage = Stage::Front;
        self.lens = lens;
        self.crcs = [self.seed; 3];
        self.sums = sums;
    }

    /// The checksum of a front or a middle.
    fn sum(&self, bytes: &[u8]) -> u32 {
        if self.sums == Sums::None { self.seed } else { crc32c(self.seed, bytes) }
    }

    /// Takes what is here of it. `true`: all of it is here.
    #[inline]
    pub(crate) fn take(&mut self, header: &Header, bytes: &mut Segment, placer: &mut dyn Placer) -> bool {
        let whole = self.take_parts(header, bytes, placer);
        if !whole {
            self.settle();
        }
        whole
    }

    /// More will come only with another receive: what is here must not keep the memory that many messages are received in.
    fn settle(&mut self) {
        for part in [&mut self.front, &mut self.middle].into_iter().flatten() {
            if part.len() <= part.block_len() / 4 {
                *part = Segment::copy_from(part);
            }
        }
        self.data.settle();
    }

    /// Bytes of a message that are here, of which all is to come if none has begun.
    pub(crate) fn held(&self) -> usize {
        let part = |part: &Option<Segment>| part.as_ref().map_or(0, |part| part.len());
        let placed = self.place.as_ref().map_or(0, |place| place.filled);
        self.gathered.len() + part(&self.front) + part(&self.middle) + self.data.len() + placed
    }

    #[inline]
    fn take_parts(&mut self, header: &Header, bytes: &mut Segment, placer: &mut dyn Placer) -> bool {
        if self.stage == Stage::Front {
            let Some(front) = gather(&mut self.gathered, self.lens[0], bytes) else { return false };
            self.crcs[0] = self.sum(&front);
            self.front = Some(front);
            self.stage = Stage::Middle;
        }
        if self.stage == Stage::Middle {
            if self.lens[1] > 0 {
                let Some(middle) = gather(&mut self.gathered, self.lens[1], bytes) else { return false };
                self.crcs[1] = self.sum(&middle);
                self.middle = Some(middle);
            }
            self.find_place(header, placer);
            self.stage = Stage::Data;
        }
        self.lens[2] == 0 || self.take_data(bytes)
    }

    /// Asks where the payload goes, now that the message is known up to it.
    #[inline]
    fn find_place(&mut self, header: &Header, placer: &mut dyn Placer) {
        let len = self.lens[2];
        let front = self.front.as_deref().unwrap_or_default();
        let buffer = if len > 0 { placer.place(header, front, len) } else { None };
        self.bulk = buffer.is_some() && len >= BULK;
        self.place = buffer.map(|buffer| {
            assert_eq!(buffer.len(), len, "a place has the size of the payload");
            Place::new(buffer)
        });
    }

    /// Takes what is here of the payload. `true`: all of it is here.
    fn take_data(&mut self, bytes: &mut Segment) -> bool {
        let Some(place) = &mut self.place else {
            let more = bytes.len().min(self.lens[2] - self.data.len());
            if more > 0 {
                let piece = bytes.split_to(more);
                if self.sums == Sums::All {
                    self.crcs[2] = crc32c(self.crcs[2], &piece);
                }
                self.data.push(piece);
            }
            return self.data.len() == self.lens[2];
        };
        assert!(!place.out, "bytes behind a place that is out come after it");
        let taken = bytes.len().min(self.lens[2] - place.filled);
        for chunk in bytes[..taken].chunks(COPY_CHUNK) {
            place.buffer[place.filled..place.filled + chunk.len()].copy_from_slice(chunk);
            if self.sums == Sums::All {
                self.crcs[2] = crc32c(self.crcs[2], chunk);
            }
            place.filled += chunk.len();
        }
        bytes.advance(taken);
        place.filled == self.lens[2]
    }

    /// Where the next bytes go.
    pub(crate) fn landing(&mut self) -> Landing {
        place::landing(self.place.as_mut(), self.bulk)
    }

    /// The rest of a place comes back with `filled` bytes more.
    pub(crate) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        if self.sums == Sums::All {
            self.crcs[2] = crc32c(self.crcs[2], &rest[..filled]);
        }
        self.place.as_mut().expect("only what was handed out lands").landed(rest, filled);
    }

    /// The place of the payload that is being received, if it is not out.
    pub(crate) fn take_place(&mut self) -> Option<SegmentMut> {
        self.place.take_if(|place| !place.out).map(|place| place.buffer)
    }

    /// Checksums of front, middle and payload, as far as they were made when these came.
    pub(crate) fn crcs(&self) -> [u32; 3] {
        self.crcs
    }

    /// Checksum of the payload that was received, which is made now if it was not made before.
    pub(crate) fn data_crc(&self) -> u32 {
        match &self.place {
            _ if self.sums == Sums::All => self.crcs[2],
            Some(place) => crc32c(self.seed, &place.buffer),
            None => self.data.crc32c(self.seed),
        }
    }

    /// Forgets a message whose sender gave it up, and gives back the place of its payload.
    pub(crate) fn give_up(&mut self) -> Option<SegmentMut> {
        self.bulk = false;
        self.take_message(Header::default()).placed
    }

    /// The message, all of whose parts are here.
    #[inline]
    pub(crate) fn take_message(&mut self, header: Header) -> Message {
        Message {
            header,
            front: self.front.take().unwrap_or_else(|| Segment::from_static(b"")),
            middle: self.middle.take(),
            data: self.data.take(),
            placed: self.place.take().map(|place| place.buffer),
        }
    }
}
