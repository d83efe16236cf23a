//! Splits a stream of encrypted frames, wherever it is cut.
//!
//! Encrypted data has to be moved or rewritten anyway. Fronts and small payloads are opened from the receive memory
//! into their own memory. A placed payload is opened in place as it arrives, chunk by chunk while it is in the cache.
//! Nothing is delivered before its tag has been verified, and a buffer returned without verification is wiped.

use super::frame::{MAX_SEGMENTS, PREAMBLE_LEN, Preamble, is_aborted};
use super::header::HEADER_LEN;
use super::input::{Frame, HEADER_SIZE, announced, check_preamble};
use super::secure::{BLOCK, OpenRx, SEALED_HEAD_LEN, SEALED_STATUS_LEN, first_rest, padded};
use super::unpack::Unpacker;
use crate::config::Limits;
use crate::error::Error;
use crate::message::{Header, Message, Placer};
use crate::protocol::{Input, Receive};
use crate::receive::buffer::{RecvBuffer, read_ahead};
use crate::receive::gather::fill;
use crate::receive::memory::PartMemory;
use crate::tag::Tag;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_wire::{Ahead, Landing, Part, Unfinished};

/// Maximum size of a fixed part: a head; zeros, status and tag take less.
const PART_MAX: usize = SEALED_HEAD_LEN;
const _: () = assert!(PART_MAX >= BLOCK + SEALED_STATUS_LEN);

/// Size of the buffer for opening discarded payloads: whole blocks, in bytes.
const DISCARD_CHUNK: usize = 256 << 10;
const _: () = assert!(DISCARD_CHUNK.is_multiple_of(BLOCK));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecureStage {
    Head,
    /// Rest of a control frame's payload or of a compressed header.
    Rest,
    Front,
    Middle,
    Data,
    Status,
}

/// Segment being received and opened.
#[derive(Debug)]
struct Opening {
    buffer: RecvBuffer,
    /// Number of bytes opened: whole blocks until the segment is complete.
    opened: usize,
    /// Whether the [`Placer`] gave the buffer.
    placed: bool,
}

impl Opening {
    fn new(buffer: SegmentMut, placed: bool) -> Self {
        Self { buffer: RecvBuffer::new(buffer), opened: 0, placed }
    }

    /// Consumes available bytes of the segment. Returns whether it is complete and opened.
    fn take(&mut self, keys: &mut OpenRx, bytes: &mut Segment) -> bool {
        // Complete a fragmented block, then open whole blocks straight from the receive memory, then copy the rest.
        let filled = self.buffer.filled();
        self.copy(filled.next_multiple_of(BLOCK) - filled, bytes);
        self.open(keys);
        let left = self.buffer.left();
        let here = left.min(bytes.len());
        let direct = if here == left { here } else { here - here % BLOCK };
        if direct > 0 && self.opened == self.buffer.filled() {
            self.buffer.fill(direct, |to| keys.open(&bytes[..direct], to));
            self.opened += direct;
            bytes.advance(direct);
        }
        self.copy(self.buffer.left(), bytes);
        self.open(keys);
        self.buffer.left() == 0
    }

    fn copy(&mut self, len: usize, bytes: &mut Segment) {
        let n = len.min(self.buffer.left()).min(bytes.len());
        self.buffer.copy(&bytes[..n]);
        bytes.advance(n);
    }

    fn open(&mut self, keys: &mut OpenRx) {
        let filled = self.buffer.filled();
        let end = if self.buffer.left() == 0 { filled } else { filled - filled % BLOCK };
        if end > self.opened {
            let cut = end - self.opened;
            keys.open_in_place(&mut self.buffer.filled_from(self.opened)[..cut]);
            self.opened = end;
        }
    }
}

#[derive(Debug)]
pub(super) struct SecureReceiver {
    keys: OpenRx,
    limits: Limits,
    messages: bool,
    ahead: Ahead,
    stage: SecureStage,
    memory: PartMemory,
    unpacker: Option<Box<Unpacker>>,
    part: Part<PART_MAX>,
    /// Complete fixed part, to be opened in place.
    fixed: [u8; PART_MAX],
    preamble: Preamble,
    /// Bytes received of a first segment larger than its inline part.
    first: Vec<u8>,
    header: Header,
    opening: Option<Opening>,
    front: Option<Segment>,
    middle: Option<Segment>,
    /// Discarded payload bytes of this message, and how many of them still follow after `opening`.
    discarded: usize,
    discarding: usize,
}

impl SecureReceiver {
    pub(super) fn new(keys: OpenRx, limits: Limits, pool: Pool) -> Self {
        Self {
            keys,
            limits,
            messages: false,
            ahead: read_ahead(),
            stage: SecureStage::Head,
            memory: PartMemory::new(pool),
            unpacker: None,
            part: Part::default(),
            fixed: [0; PART_MAX],
            preamble: Preamble::new(Tag::Ack, [0; MAX_SEGMENTS]),
            first: Vec::new(),
            header: Header::default(),
            opening: None,
            front: None,
            middle: None,
            discarded: 0,
            discarding: 0,
        }
    }

    pub(super) fn allow_messages(&mut self) {
        self.messages = true;
    }

    pub(super) fn unpack(&mut self, unpacker: Unpacker) {
        self.unpacker = Some(Box::new(unpacker));
    }

    /// Takes a fixed part. Returns whether it is complete.
    fn take_fixed(&mut self, len: usize, bytes: &mut Segment) -> bool {
        let Some((part, used)) = self.part.take(len, bytes) else { return false };
        self.fixed[..len].copy_from_slice(part);
        bytes.advance(used);
        true
    }

    /// Opens a preamble and its inline part. Returns the input if the frame is complete.
    fn head(&mut self, placer: &mut dyn Placer) -> Result<Option<Input<Frame>>, Error> {
        self.keys.begin();
        let head = self.keys.finish(&mut self.fixed, "a frame's preamble")?;
        let (preamble, inline) = head.split_first_chunk::<PREAMBLE_LEN>().ok_or(HEADER_SIZE)?;
        self.preamble = Preamble::from_wire(preamble)?;
        check_preamble(&self.preamble, self.messages, self.unpacker.is_some(), &self.limits)?;
        let Preamble { tag, lens, segments, compressed } = self.preamble;
        if tag == Tag::Message && !compressed {
            self.header = Header::from_wire(inline.first_chunk::<HEADER_LEN>().ok_or(HEADER_SIZE)?)?;
            if segments == 1 {
                return Ok(Some(Input::Message));
            }
            self.keys.begin();
            self.stage = SecureStage::Front;
            return Ok(None);
        }
        let len = lens[0] as usize;
        let inline = &inline[..len.min(inline.len())];
        if first_rest(len) == 0 {
            let first = Segment::copy_from(inline);
            return self.first(first, placer);
        }
        self.first.clear();
        self.first.extend_from_slice(inline);
        self.stage = SecureStage::Rest;
        Ok(None)
    }

    /// Takes the rest of a first segment. Returns the complete segment.
    fn rest(&mut self, bytes: &mut Segment) -> Result<Option<Segment>, Error> {
        let len = self.preamble.lens[0] as usize;
        let inline = len.min(super::secure::INLINE_LEN);
        if !fill(&mut self.first, inline + first_rest(len), bytes) {
            return Ok(None);
        }
        self.keys.begin();
        self.keys.finish(&mut self.first[inline..], "the first segment of a frame")?;
        self.first.truncate(len);
        Ok(Some(std::mem::take(&mut self.first).into()))
    }

    /// Processes the complete first segment of a control frame or a compressed message. Returns the input if the frame
    /// is complete.
    fn first(&mut self, first: Segment, placer: &mut dyn Placer) -> Result<Option<Input<Frame>>, Error> {
        let Preamble { tag, segments, compressed, .. } = self.preamble;
        self.stage = SecureStage::Head;
        if !compressed {
            return Ok(Some(Input::Frame(Frame::Control(tag, first))));
        }
        let unpacker = self.unpacker.as_mut().ok_or(Error::NotAgreed)?;
        if tag != Tag::Message {
            return Ok(Some(Input::Frame(Frame::Control(tag, unpacker.control(&first)?))));
        }
        unpacker.begin(first);
        if segments == 1 {
            return self.whole(placer).map(Some);
        }
        self.keys.begin();
        self.stage = SecureStage::Front;
        Ok(None)
    }

    /// Processes a complete and verified message.
    fn whole(&mut self, placer: &mut dyn Placer) -> Result<Input<Frame>, Error> {
        if self.preamble.compressed {
            let packed = self.take_parts();
            self.header = self.unpacker.as_mut().ok_or(Error::NotAgreed)?.message(&packed, placer)?;
        }
        Ok(Input::Message)
    }

    /// Takes a front or a middle, including its padding.
    fn take_part(&mut self, segment: usize, bytes: &mut Segment) -> Option<Segment> {
        let len = self.preamble.lens[segment] as usize;
        if len == 0 {
            return Some(Segment::from_static(b""));
        }
        let memory = &mut self.memory;
        let opening = self.opening.get_or_insert_with(|| Opening::new(memory.get(padded(len)), false));
        if !opening.take(&mut self.keys, bytes) {
            return None;
        }
        let mut whole = Segment::from(self.opening.take()?.buffer.into_inner());
        whole.truncate(len);
        Some(whole)
    }

    /// Asks the placer for the payload's buffer, now that everything before the payload is known.
    fn find_place(&mut self, placer: &mut dyn Placer) {
        let len = self.preamble.lens[3] as usize;
        if len == 0 {
            self.ahead.message(0);
            return;
        }
        let front = self.front.as_deref().unwrap_or_default();
        if !self.preamble.compressed && self.limits.discards(self.preamble.lens[3]) {
            self.ahead.message(0);
            (self.discarded, self.discarding) = (len, len);
            return self.discard_chunk();
        }
        // A compressed payload is placed after decompression.
        let given = if self.preamble.compressed { None } else { placer.place(&self.header, front, len) };
        let placed = given.is_some();
        self.ahead.message(if placed { len } else { 0 });
        let buffer = given.unwrap_or_else(|| self.memory.get(len));
        assert_eq!(buffer.len(), len, "the buffer has the size of the payload");
        self.opening = Some(Opening::new(buffer, placed));
    }

    /// Prepares to open and drop the next chunk of a discarded payload: its tag depends on these bytes.
    fn discard_chunk(&mut self) {
        let len = self.discarding.min(DISCARD_CHUNK);
        self.discarding -= len;
        self.opening = Some(Opening::new(self.memory.get(len), false));
    }

    fn take_parts(&mut self) -> Message {
        let (mut data, mut placed) = (List::new(), None);
        match self.opening.take() {
            Some(opening) if opening.placed => placed = Some(opening.buffer.into_inner()),
            Some(_) if self.discarded > 0 => {}
            Some(opening) => data.push(opening.buffer.into_inner()),
            None => {}
        }
        Message {
            header: self.header,
            front: self.front.take().unwrap_or_else(|| Segment::from_static(b"")),
            middle: self.middle.take(),
            data,
            placed,
            discarded: std::mem::take(&mut self.discarded),
        }
    }

    fn drop_aborted(&mut self) -> Option<Input<Frame>> {
        self.ahead.message(0);
        let Message { header, placed, .. } = self.take_parts();
        placed.map(|place| Input::Aborted(header, place))
    }
}

impl Receive for SecureReceiver {
    type Frame = Frame;

    fn landing(&mut self) -> Landing {
        match &mut self.opening {
            Some(payload) if matches!(self.stage, SecureStage::Data | SecureStage::Status) => {
                payload.buffer.landing(&self.ahead)
            }
            _ => self.ahead.landing(None, 0),
        }
    }

    fn landed(&mut self, rest: SegmentMut, filled: usize) {
        let payload = self.opening.as_mut().expect("only a buffer that was handed out is returned");
        payload.buffer.landed(rest, filled);
        payload.open(&mut self.keys);
    }

    #[inline]
    fn unfinished(&self) -> Option<Unfinished> {
        let announced = match self.stage {
            SecureStage::Head if self.part.is_empty() => return None,
            SecureStage::Head => 0,
            _ => announced(&self.preamble, &self.limits),
        };
        let part = |part: &Option<Segment>| part.as_ref().map_or(0, |part| part.len());
        let filled = self.opening.as_ref().map_or(0, |opening| opening.buffer.filled());
        Some(Unfinished {
            announced,
            held: self.first.len() + part(&self.front) + part(&self.middle) + filled,
        })
    }

    /// The buffer's content is unverified, so it is wiped.
    fn take_place(&mut self) -> Option<(Header, SegmentMut)> {
        let is_here = |opening: &mut Opening| opening.placed && !opening.buffer.is_out();
        if let Some(Opening { mut buffer, .. }) = self.opening.take_if(is_here) {
            buffer.filled_from(0).fill(0);
            return Some((self.header, buffer.into_inner()));
        }
        self.unpacker.as_mut()?.take_place()
    }

    fn next(&mut self, bytes: &mut Segment, placer: &mut dyn Placer) -> Result<Option<Input<Frame>>, Error> {
        loop {
            match self.stage {
                SecureStage::Head => {
                    if !self.take_fixed(SEALED_HEAD_LEN, bytes) {
                        return Ok(None);
                    }
                    if let Some(input) = self.head(placer)? {
                        return Ok(Some(input));
                    }
                }
                SecureStage::Rest => {
                    let Some(first) = self.rest(bytes)? else { return Ok(None) };
                    if let Some(input) = self.first(first, placer)? {
                        return Ok(Some(input));
                    }
                }
                SecureStage::Front => {
                    let Some(front) = self.take_part(1, bytes) else { return Ok(None) };
                    self.front = Some(front);
                    self.stage = SecureStage::Middle;
                }
                SecureStage::Middle => {
                    let Some(middle) = self.take_part(2, bytes) else { return Ok(None) };
                    self.middle = (!middle.is_empty()).then_some(middle);
                    self.find_place(placer);
                    self.stage = SecureStage::Data;
                }
                SecureStage::Data => {
                    if let Some(payload) = &mut self.opening {
                        assert!(
                            !payload.buffer.is_out(),
                            "received bytes into shared memory while the buffer was handed out"
                        );
                        if !payload.take(&mut self.keys, bytes) {
                            return Ok(None);
                        }
                        if self.discarding > 0 {
                            self.discard_chunk();
                            continue;
                        }
                    }
                    self.stage = SecureStage::Status;
                }
                SecureStage::Status => {
                    let zeros = padded(self.preamble.lens[3] as usize) - self.preamble.lens[3] as usize;
                    if !self.take_fixed(zeros + SEALED_STATUS_LEN, bytes) {
                        return Ok(None);
                    }
                    let end = &mut self.fixed[..zeros + SEALED_STATUS_LEN];
                    let status = self.keys.finish(end, "a message")?[zeros];
                    self.stage = SecureStage::Head;
                    if !is_aborted(status)? {
                        return self.whole(placer).map(Some);
                    }
                    if let Some(aborted) = self.drop_aborted() {
                        return Ok(Some(aborted));
                    }
                }
            }
        }
    }

    #[inline]
    fn header(&self) -> &Header {
        &self.header
    }

    fn take_message(&mut self) -> Message {
        let unpacked = self.unpacker.as_mut().and_then(|unpacker| unpacker.take_message());
        unpacked.unwrap_or_else(|| self.take_parts())
    }
}
