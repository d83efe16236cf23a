//! The parts of a message after its header as they arrive: front, middle, payload.
//!
//! Fronts and payloads are slices of the received data. Only a front that arrived in pieces and a placed payload are
//! copied; of the payload, only what arrived before its place was known.

use super::buffer::{RecvBuffer, read_ahead};
use super::gather::gather;
use crate::message::{Header, Message, Placer, Sums};
use onego_buf::{Segment, SegmentMut, crc32c};
use onego_wire::{Ahead, Landing, Pieces};

/// Bytes that are copied to a place and checksummed at a time, so that the checksum finds them in the L1 cache.
const COPY_CHUNK: usize = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyStage {
    Front,
    Middle,
    Data,
}

#[derive(Debug)]
pub(crate) struct Body {
    stage: BodyStage,
    lens: [usize; 3],
    /// Initial value of checksums.
    seed: u32,
    crcs: [u32; 3],
    sums: Sums,
    ahead: Ahead,
    /// Bytes received of a fragmented front or middle. A copy, because slices would keep a block of receive memory for
    /// each fragment and still end in a copy.
    gathered: Vec<u8>,
    front: Option<Segment>,
    middle: Option<Segment>,
    data: Pieces,
    placed: Option<RecvBuffer>,
    discards: bool,
    /// Bytes of a discarded payload that have arrived.
    discarded: usize,
}

impl Body {
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

    /// Starts a body with parts of these lengths. `discards`: its payload is discarded.
    #[inline]
    pub(crate) fn begin(&mut self, lens: [usize; 3], sums: Sums, discards: bool) {
        self.stage = BodyStage::Front;
        self.lens = lens;
        self.crcs = [self.seed; 3];
        self.sums = sums;
        (self.discards, self.discarded) = (discards, 0);
    }

    fn sum(&self, bytes: &[u8]) -> u32 {
        if self.sums == Sums::None { self.seed } else { crc32c(self.seed, bytes) }
    }

    /// Consumes available bytes of the body. Returns whether it is complete.
    #[inline]
    pub(crate) fn take(&mut self, header: &Header, bytes: &mut Segment, placer: &mut dyn Placer) -> bool {
        let whole = self.take_parts(header, bytes, placer);
        if !whole {
            self.trim();
        }
        whole
    }

    /// Trims memory before another receive: the received parts must not pin the memory that many messages are received
    /// in.
    fn trim(&mut self) {
        for part in [&mut self.front, &mut self.middle].into_iter().flatten() {
            if part.len() <= part.block_len() / 4 {
                *part = Segment::copy_from(part);
            }
        }
        self.data.settle();
    }

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

    /// Asks the placer for the payload's buffer, now that everything before the payload is known.
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
        assert!(!placed.is_out(), "received bytes into shared memory while the buffer was handed out");
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

    fn discard(&mut self, bytes: &mut Segment) -> bool {
        let gone = bytes.split_to(bytes.len().min(self.lens[2] - self.discarded));
        // The checksum cannot be computed later.
        if self.sums != Sums::None {
            self.crcs[2] = crc32c(self.crcs[2], &gone);
        }
        self.discarded += gone.len();
        self.discarded == self.lens[2]
    }

    pub(crate) fn landing(&mut self) -> Landing {
        match &mut self.placed {
            Some(placed) => placed.landing(&self.ahead),
            None => self.ahead.landing(None, 0),
        }
    }

    pub(crate) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        if self.sums == Sums::All {
            self.crcs[2] = crc32c(self.crcs[2], &rest[..filled]);
        }
        self.placed.as_mut().expect("only a buffer that was handed out is returned").landed(rest, filled);
    }

    /// Takes the buffer of the payload being received, unless a receive holds it.
    pub(crate) fn take_place(&mut self) -> Option<SegmentMut> {
        self.placed.take_if(|placed| !placed.is_out()).map(RecvBuffer::into_inner)
    }

    /// Checksums of front, middle and payload, as far as they were computed on arrival.
    pub(crate) fn crcs(&self) -> [u32; 3] {
        self.crcs
    }

    /// Returns the payload's checksum, computing it now if it was not computed on arrival.
    pub(crate) fn data_crc(&self) -> u32 {
        match &self.placed {
            _ if self.sums == Sums::All || self.discards => self.crcs[2],
            Some(placed) => crc32c(self.seed, placed.bytes()),
            None => self.data.crc32c(self.seed),
        }
    }

    /// Drops a message that the sender aborted. Returns the buffer of its payload.
    pub(crate) fn drop_aborted(&mut self) -> Option<SegmentMut> {
        self.ahead.message(0);
        self.take_message(Header::default()).placed
    }

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
