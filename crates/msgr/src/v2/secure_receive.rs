//! Takes a stream of encrypted frames apart, wherever its bytes are cut.
//!
//! What is encrypted has to be moved or rewritten anyhow: fronts and small payloads are opened out of the received
//! memory into memory of their own, a payload that has a place is opened as it comes, chunk by chunk while it is in
//! the cache, where it was received. Nothing is handed on before the tag behind it was right, and a place that comes
//! back without is wiped.

use super::frame::{MAX_SEGMENTS, PREAMBLE_LEN, Preamble, is_aborted};
use super::header::HEADER_LEN;
use super::receive::{Frame, HEADER_SIZE, check_preamble};
use super::secure::{BLOCK, OpenRx, SEALED_HEAD_LEN, SEALED_STATUS_LEN, first_rest, padded};
use super::unpack::Unpacker;
use crate::config::Limits;
use crate::dialect::Input;
use crate::error::Error;
use crate::message::{Header, Message, Placer};
use crate::receive::memory::PartMemory;
use crate::receive::place::{self, BULK, Place};
use crate::tag::Tag;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_wire::{Landing, Unfinished};

/// The most bytes of a fixed part: a head; zeros, the status and its tag are less.
const PART_MAX: usize = SEALED_HEAD_LEN;
const _: () = assert!(PART_MAX >= BLOCK + SEALED_STATUS_LEN);

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    /// The rest of a control frame's payload, or of a compressed header.
    Rest,
    Front,
    Middle,
    Data,
    Status,
}

/// A part that is being received and opened.
#[derive(Debug)]
struct Part {
    place: Place,
    /// Bytes that are opened: whole blocks until all is here.
    opened: usize,
    /// Did the [`Placer`] give the buffer?
    placed: bool,
}

impl Part {
    fn new(buffer: SegmentMut, placed: bool) -> Self {
        Self { place: Place::new(buffer), opened: 0, placed }
    }

    /// Takes what is here of it, `len` bytes in all. `true`: all of it is here, and open.
    fn take(&mut self, len: usize, keys: &mut OpenRx, bytes: &mut Segment) -> bool {
        // Up to the end of a block that is cut, then whole blocks out of the received memory, then the rest.
        let filled = self.place.filled;
        let begun = (filled.next_multiple_of(BLOCK) - filled).min(len - filled);
        self.copy(begun.min(bytes.len()), bytes);
        self.open(len, keys);
        let filled = self.place.filled;
        let left = (len - filled).min(bytes.len());
        let direct = if left == len - filled { left } else { left - left % BLOCK };
        if direct > 0 && self.opened == filled {
            let end = filled + direct;
            keys.open(&bytes[..direct], &mut self.place.buffer[filled..end]);
            (self.place.filled, self.opened) = (end, end);
            bytes.advance(direct);
        }
        self.copy((len - self.place.filled).min(bytes.len()), bytes);
        self.open(len, keys);
        self.opened == len
    }

    fn copy(&mut self, n: usize, bytes: &mut Segment) {
        let Place { buffer, filled, .. } = &mut self.place;
        buffer[*filled..*filled + n].copy_from_slice(&bytes[..n]);
        *filled += n;
        bytes.advance(n);
    }

    /// Opens what is here, where it lies.
    fn open(&mut self, len: usize, keys: &mut OpenRx) {
        let filled = self.place.filled;
        let end = if filled == len { len } else { filled - filled % BLOCK };
        if end > self.opened {
            keys.open_in_place(&mut self.place.buffer[self.opened..end]);
            self.opened = end;
        }
    }
}

#[derive(Debug)]
pub(super) struct SecureReceiver {
    keys: OpenRx,
    limits: Limits,
    /// May messages come, or is the handshake still going on?
    messages: bool,
    /// Does the connection carry bulk at the moment?
    bulk: bool,
    stage: Stage,
    memory: PartMemory,
    /// Decompresses, once that is agreed on.
    unpacker: Option<Box<Unpacker>>,
    fixed: [u8; PART_MAX],
    fixed_filled: usize,
    preamble: Preamble,
    /// What is here of a first segment that is larger than what travels with the preamble.
    first: Vec<u8>,
    header: Header,
    /// The part that is being received.
    part: Option<Part>,
    front: Option<Segment>,
    middle: Option<Segment>,
}

impl SecureReceiver {
    pub(super) fn new(keys: OpenRx, limits: Limits, pool: Pool) -> Self {
        Self {
            keys,
            limits,
            messages: false,
            bulk: false,
            stage: Stage::Head,
            memory: PartMemory::new(pool),
            unpacker: None,
            fixed: [0; PART_MAX],
            fixed_filled: 0,
            preamble: Preamble::new(Tag::Ack, [0; MAX_SEGMENTS]),
            first: Vec::new(),
            header: Header::default(),
            part: None,
            front: None,
            middle: None,
        }
    }

    /// From now on messages may come.
    pub(super) fn allow_messages(&mut self) {
        self.messages = true;
    }

    /// What follows may be compressed.
    pub(super) fn unpack(&mut self, unpacker: Unpacker) {
        self.unpacker = Some(Box::new(unpacker));
    }

    /// Where the next bytes go.
    pub(super) fn landing(&mut self) -> Landing {
        let payload = self.part.as_mut().filter(|_| matches!(self.stage, Stage::Data | Stage::Status));
        place::landing(payload.map(|part| &mut part.place), self.bulk)
    }

    /// The rest of a place comes back with `filled` bytes more.
    pub(super) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        let part = self.part.as_mut().expect("only what was handed out lands");
        part.place.landed(rest, filled);
        part.open(self.preamble.lens[3] as usize, &mut self.keys);
    }

    /// The frame of which a part has come and a part has not.
    #[inline]
    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        let announced = match self.stage {
            Stage::Head if self.fixed_filled == 0 => return None,
            Stage::Head => 0,
            _ => self.preamble.announced(),
        };
        let part = |part: &Option<Segment>| part.as_ref().map_or(0, |part| part.len());
        let filled = self.part.as_ref().map_or(0, |part| part.place.filled);
        Some(Unfinished {
            announced,
            held: self.first.len() + part(&self.front) + part(&self.middle) + filled,
        })
    }

    /// The place of the message that is being received, if it is not out. What is in it was not proved to be anything,
    /// so it is wiped.
    pub(super) fn take_place(&mut self) -> Option<(Header, SegmentMut)> {
        if let Some(Part { mut place, .. }) = self.part.take_if(|part| part.placed && !part.place.out) {
            place.buffer[..place.filled].fill(0);
            return Some((self.header, place.buffer));
        }
        self.unpacker.as_mut()?.take_place()
    }

    /// The next whole thing in `bytes` and what was received before. `None`: all bytes are used up.
    pub(super) fn next(
        &mut self,
        bytes: &mut Segment,
        placer: &mut dyn Placer,
    ) -> Result<Option<Input<Frame>>, Error> {
        loop {
            match self.stage {
                Stage::Head => {
                    if !self.take_fixed(SEALED_HEAD_LEN, bytes) {
                        return Ok(None);
                    }
                    if let Some(input) = self.head(placer)? {
                        return Ok(Some(input));
                    }
                }
                Stage::Rest => {
                    let Some(first) = self.rest(bytes)? else { return Ok(None) };
                    if let Some(input) = self.first(first, placer)? {
                        return Ok(Some(input));
                    }
                }
                Stage::Front => {
                    let Some(front) = self.take_part(1, bytes) else { return Ok(None) };
                    self.front = Some(front);
                    self.stage = Stage::Middle;
                }
                Stage::Middle => {
                    let Some(middle) = self.take_part(2, bytes) else { return Ok(None) };
                    self.middle = (!middle.is_empty()).then_some(middle);
                    self.find_place(placer);
                    self.stage = Stage::Data;
                }
                Stage::Data => {
                    let len = self.preamble.lens[3] as usize;
                    if let Some(part) = &mut self.part {
                        assert!(!part.place.out, "bytes behind a place that is out come after it");
                        if !part.take(len, &mut self.keys, bytes) {
                            return Ok(None);
                        }
                    }
                    self.stage = Stage::Status;
                }
                Stage::Status => {
                    let zeros = padded(self.preamble.lens[3] as usize) - self.preamble.lens[3] as usize;
                    if !self.take_fixed(zeros + SEALED_STATUS_LEN, bytes) {
                        return Ok(None);
                    }
                    let end = &mut self.fixed[..zeros + SEALED_STATUS_LEN];
                    let status = self.keys.finish(end, "a message")?[zeros];
                    self.stage = Stage::Head;
                    if !is_aborted(status)? {
                        return self.whole(placer).map(Some);
                    }
                    if let Some(aborted) = self.give_up_message() {
                        return Ok(Some(aborted));
                    }
                }
            }
        }
    }

    /// Gathers a fixed part. `true`: all of it is here.
    fn take_fixed(&mut self, len: usize, bytes: &mut Segment) -> bool {
        let more = (len - self.fixed_filled).min(bytes.len());
        self.fixed[self.fixed_filled..self.fixed_filled + more].copy_from_slice(&bytes[..more]);
        self.fixed_filled += more;
        bytes.advance(more);
        let whole = self.fixed_filled == len;
        if whole {
            self.fixed_filled = 0;
        }
        whole
    }

    /// Opens a preamble and what came with it. Returns what it was if that is all.
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
            self.stage = Stage::Front;
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
        self.stage = Stage::Rest;
        Ok(None)
    }

    /// Takes the rest of a first segment. Returns all of it.
    fn rest(&mut self, bytes: &mut Segment) -> Result<Option<Segment>, Error> {
        let len = self.preamble.lens[0] as usize;
        let inline = len.min(super::secure::INLINE_LEN);
        let more = (inline + first_rest(len) - self.first.len()).min(bytes.len());
        self.first.extend_from_slice(&bytes[..more]);
        bytes.advance(more);
        if self.first.len() < inline + first_rest(len) {
            return Ok(None);
        }
        self.keys.begin();
        self.keys.finish(&mut self.first[inline..], "the first segment of a frame")?;
        self.first.truncate(len);
        Ok(Some(std::mem::take(&mut self.first).into()))
    }

    /// The first segment of a frame is here: that of a control frame, or of a compressed message. Returns what it was if
    /// that is all.
    fn first(&mut self, first: Segment, placer: &mut dyn Placer) -> Result<Option<Input<Frame>>, Error> {
        let Preamble { tag, segments, compressed, .. } = self.preamble;
        self.stage = Stage::Head;
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
        self.stage = Stage::Front;
        Ok(None)
    }

    /// All of a message is here, and was sent by the peer.
    fn whole(&mut self, placer: &mut dyn Placer) -> Result<Input<Frame>, Error> {
        if self.preamble.compressed {
            let packed = self.take_parts();
            self.header = self.unpacker.as_mut().ok_or(Error::NotAgreed)?.message(&packed, placer)?;
        }
        Ok(Input::Message)
    }

    /// Takes a front or a middle, with the zeros behind it.
    fn take_part(&mut self, segment: usize, bytes: &mut Segment) -> Option<Segment> {
        let len = self.preamble.lens[segment] as usize;
        if len == 0 {
            return Some(Segment::from_static(b""));
        }
        if self.part.is_none() {
            let buffer = self.memory.get(padded(len));
            self.part = Some(Part::new(buffer, false));
        }
        let part = self.part.as_mut()?;
        if !part.take(padded(len), &mut self.keys, bytes) {
            return None;
        }
        let mut whole = Segment::from(self.part.take()?.place.buffer);
        whole.truncate(len);
        Some(whole)
    }

    /// Asks where the payload goes, now that the message is known up to it.
    fn find_place(&mut self, placer: &mut dyn Placer) {
        let len = self.preamble.lens[3] as usize;
        self.bulk = false;
        if len == 0 {
            return;
        }
        let front = self.front.as_deref().unwrap_or_default();
        // What a compressed payload decompresses to is placed later.
        let given = if self.preamble.compressed { None } else { placer.place(&self.header, front, len) };
        self.bulk = given.is_some() && len >= BULK;
        let placed = given.is_some();
        let buffer = given.unwrap_or_else(|| self.memory.get(len));
        assert_eq!(buffer.len(), len, "a place has the size of the payload");
        self.part = Some(Part::new(buffer, placed));
    }

    /// The header of the message that [`next`](Self::next) has just told of.
    #[inline]
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// The message that [`next`](Self::next) has just told of.
    pub(super) fn take_message(&mut self) -> Message {
        let unpacked = self.unpacker.as_mut().and_then(|unpacker| unpacker.take_message());
        unpacked.unwrap_or_else(|| self.take_parts())
    }

    /// The parts of a message as they were received.
    fn take_parts(&mut self) -> Message {
        let (mut data, mut placed) = (List::new(), None);
        match self.part.take() {
            Some(part) if part.placed => placed = Some(part.place.buffer),
            Some(part) => data.push(part.place.buffer),
            None => {}
        }
        Message {
            header: self.header,
            front: self.front.take().unwrap_or_else(|| Segment::from_static(b"")),
            middle: self.middle.take(),
            data,
            placed,
        }
    }

    /// Forgets a message whose sender gave it up.
    fn give_up_message(&mut self) -> Option<Input<Frame>> {
        self.bulk = false;
        let Message { header, placed, .. } = self.take_parts();
        placed.map(|place| Input::Aborted(header, place))
    }
}
