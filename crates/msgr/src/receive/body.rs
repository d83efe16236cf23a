//! The parts of a message behind its header, as they come in: front, middle, payload.
//!
//! Fronts and payloads are slices of what was received. Only a front that is cut, and a payload that has a place, are
//! copied: the payload only as far as it was here before its place was known.

use super::buffer::{RecvBuffer, read_ahead};
use super::gather::gather;
use crate::message::{Header, Message, Placer, Sums};
use onego_buf::{Segment, SegmentMut, crc32c};
use onego_wire::{Ahead, Landing, Pieces};

/// Bytes that are copied to a place and summed up in one go, so that the sum finds them in the first-level cache.
const COPY_CHUNK: usize = 16 << 10;

/// What comes next of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyStage {
    Front,
    Middle,
    Data,
}

/// One body after the other.
#[derive(Debug)]
pub(crate) struct Body {
    stage: BodyStage,
    lens: [usize; 3],
    /// What checksums start with.
    seed: u32,
    /// Checksums of the parts.
    crcs: [u32; 3],
    sums: Sums,
    ahead: Ahead,
    /// What is here of a front or a middle that came in pieces. A copy: slices would keep a block of received memory
    /// for each piece, and end in a copy all the same.
    gathered: Vec<u8>,
    front: Option<Segment>,
    middle: Option<Segment>,
    data: Pieces,
    /// Where the payload goes, if the owner gave a buffer for it.
    placed: Option<RecvBuffer>,
    /// The payload is not kept.
    discards: bool,
    /// Bytes of such a payload that have arrived.
    discarded: usize,
}

impl Body {
    /// `seed`: what checksums start with.
    pub(crate) fn new(seed: u32) -> Self {
        Self {
            stage: BodyStage::Front,
            lens: [0; 3],
            seed,
            crcs: [seed; 3],
            sums: Sums::All,
            ahead: read_ahead(),
            gathered: Vec::new(),
            front: None,
            middle: None,
            data: Pieces::default(),
            placed: None,
            discards: false,
            discarded: 0,
        }
    }

    /// A body with parts of these lengths begins. `discards`: its payload is not kept.
    #[inline]
    pub(crate) fn begin(&mut self, lens: [usize; 3], sums: Sums, discards: bool) {
        self.stage = BodyStage::Front;
        self.lens = lens;
        self.crcs = [self.seed; 3];
        self.sums = sums;
        (self.discards, self.discarded) = (discards, 0);
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
        let placed = self.placed.as_ref().map_or(0, RecvBuffer::filled);
        self.gathered.len() + part(&self.front) + part(&self.middle) + self.data.len() + placed
    }

    #[inline]
    fn take_parts(&mut self, header: &Header, bytes: &mut Segment, placer: &mut dyn Placer) -> bool {
        if self.stage == BodyStage::Front {
            let Some(front) = gather(&mut self.gathered, self.lens[0], bytes) else { return false };
            self.crcs[0] = self.sum(&front);
            self.front = Some(front);
            self.stage = BodyStage::Middle;
        }
        if self.stage == BodyStage::Middle {
            if self.lens[1] > 0 {
                let Some(middle) = gather(&mut self.gathered, self.lens[1], bytes) else { return false };
                self.crcs[1] = self.sum(&middle);
                self.middle = Some(middle);
            }
            self.find_place(header, placer);
            self.stage = BodyStage::Data;
        }
        self.lens[2] == 0 || self.take_data(bytes)
    }

    /// Asks where the payload goes, now that the message is known up to it.
    #[inline]
    fn find_place(&mut self, header: &Header, placer: &mut dyn Placer) {
        let len = self.lens[2];
        let front = self.front.as_deref().unwrap_or_default();
        let buffer = if len > 0 && !self.discards { placer.place(header, front, len) } else { None };
        self.ahead.message(if buffer.is_some() { len } else { 0 });
        self.placed = buffer.map(|buffer| {
            assert_eq!(buffer.len(), len, "the buffer has the size of the payload");
            RecvBuffer::new(buffer)
        });
    }

    /// Takes what is here of the payload. `true`: all of it is here.
    fn take_data(&mut self, bytes: &mut Segment) -> bool {
        if self.discards {
            return self.discard(bytes);
        }
        let Some(placed) = &mut self.placed else {
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
        assert!(!placed.is_out(), "bytes behind a buffer that a receive has come after it");
        let taken = bytes.len().min(placed.left());
        for chunk in bytes[..taken].chunks(COPY_CHUNK) {
            placed.copy(chunk);
            if self.sums == Sums::All {
                self.crcs[2] = crc32c(self.crcs[2], chunk);
            }
        }
        bytes.advance(taken);
        placed.left() == 0
    }

    /// Forgets what is here of the payload. `true`: that was the end of it.
    fn discard(&mut self, bytes: &mut Segment) -> bool {
        let gone = bytes.split_to(bytes.len().min(self.lens[2] - self.discarded));
        // It cannot be summed up later.
        if self.sums != Sums::None {
            self.crcs[2] = crc32c(self.crcs[2], &gone);
        }
        self.discarded += gone.len();
        self.discarded == self.lens[2]
    }

    /// Where the next bytes go.
    pub(crate) fn landing(&mut self) -> Landing {
        match &mut self.placed {
            Some(placed) => placed.landing(&self.ahead),
            None => self.ahead.landing(None, 0),
        }
    }

    /// The rest of a place comes back with `filled` bytes more.
    pub(crate) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        if self.sums == Sums::All {
            self.crcs[2] = crc32c(self.crcs[2], &rest[..filled]);
        }
        self.placed.as_mut().expect("only what was handed out lands").landed(rest, filled);
    }

    /// The place of the payload that is being received, if it is not out.
    pub(crate) fn take_place(&mut self) -> Option<SegmentMut> {
        self.placed.take_if(|placed| !placed.is_out()).map(RecvBuffer::into_inner)
    }

    /// Checksums of front, middle and payload, as far as they were made when these came.
    pub(crate) fn crcs(&self) -> [u32; 3] {
        self.crcs
    }

    /// Checksum of the payload that was received, which is made now if it was not made before.
    pub(crate) fn data_crc(&self) -> u32 {
        match &self.placed {
            _ if self.sums == Sums::All || self.discards => self.crcs[2],
            Some(placed) => crc32c(self.seed, placed.bytes()),
            None => self.data.crc32c(self.seed),
        }
    }

    /// Forgets a message whose sender gave it up, and gives back the place of its payload.
    pub(crate) fn give_up(&mut self) -> Option<SegmentMut> {
        self.ahead.message(0);
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
            placed: self.placed.take().map(RecvBuffer::into_inner),
            discarded: std::mem::take(&mut self.discarded),
        }
    }
}
