//! Record marking: messages on a stream, each a record of one or more fragments (RFC 5531, section 11).

use crate::xdr::padding;
use onego_buf::{Arena, List, Segment, SegmentMut};
use onego_wire::{Ahead, Landing, Part, Pieces, Place, Unfinished};
use thiserror::Error;

/// Length of the mark before each fragment, in bytes.
const MARK_LEN: usize = 4;
/// Bit of a mark that flags the record's last fragment.
const LAST: u32 = 1 << 31;

/// The position of a message's payload, as far as its first bytes determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Unknown: the decision needs this many bytes of the message, more than were given.
    More(usize),
    /// Length of the front, which was given completely, and of the payload that follows.
    At(usize, usize),
    /// The message has no payload.
    Never,
}

/// Locates the payloads of messages and provides buffers for them.
pub trait Splitter {
    /// Locates the payload of a message that begins with `start`.
    fn split(&mut self, start: &[u8]) -> Split;

    /// Returns a buffer of exactly `payload` bytes for the payload of the message with this front. With `None` the
    /// payload is delivered in the receive buffers.
    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut>;
}

/// A received message; the [crate] documentation describes its parts.
#[derive(Debug)]
pub struct Record {
    /// Encoded words.
    pub front: Segment,
    /// Payload in the receive buffers, if the splitter gave no buffer.
    pub payload: List,
    /// Payload in the splitter's buffer.
    pub placed: Option<SegmentMut>,
    /// The payload's length differs from the one in the front, and the payload was dropped (see
    /// [`RecordReader::for_server`]).
    pub broken: bool,
}

impl Record {
    /// Creates a message without a payload.
    pub fn of(front: Segment) -> Self {
        Self { front, payload: List::new(), placed: None, broken: false }
    }
}

/// A violation of record marking. The connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The record exceeds the maximum size.
    #[error("a record of at least {len} bytes exceeds the limit of {bound}")]
    TooLong {
        /// Total size of the fragments that have begun, in bytes.
        len: usize,
        /// Maximum size of a record in bytes.
        bound: usize,
    },
    /// The payload is truncated, or bytes follow it.
    #[error("a record has {left} bytes left, but {expected} bytes of its payload are missing")]
    Length {
        /// Number of bytes left in the record.
        left: usize,
        /// Number of bytes expected, including padding.
        expected: usize,
    },
}

#[derive(Debug)]
enum Stage {
    /// The first bytes, up to the number needed to locate the payload.
    Start(usize),
    /// The front, with its length and that of the payload.
    Front(usize, usize),
    Placed(SegmentMut, Place),
    Payload(usize),
    Padding(usize),
    Whole,
    /// The rest of a record whose payload has the wrong length.
    Broken,
}

/// Parses records from a stream.
#[derive(Debug)]
pub struct RecordReader {
    bound: usize,
    front_max: usize,
    /// Deliver records with a wrong payload length instead of failing.
    takes_broken: bool,
    mark: Part<MARK_LEN>,
    /// Number of missing bytes in the fragment; `None` before its mark.
    fragment: Option<usize>,
    last: bool,
    len: usize,
    stage: Stage,
    front: Pieces,
    payload: Pieces,
    placed: Option<SegmentMut>,
    ahead: Ahead,
}

/// Number of bytes that identify a message: its xid and type.
const START_LEN: usize = 8;

impl RecordReader {
    /// Creates a reader for records of at most `bound` bytes.
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            front_max: bound,
            takes_broken: false,
            mark: Part::default(),
            fragment: None,
            last: false,
            len: 0,
            stage: Stage::Start(START_LEN),
            front: Pieces::default(),
            payload: Pieces::default(),
            placed: None,
            ahead: Ahead::default(),
        }
    }

    /// Creates a reader for a server: a record whose payload length differs from the one in its front is delivered as
    /// broken, without its payload. The server can then answer it with `GARBAGE_ARGS` (RFC 5531, section 9), and other
    /// calls on the connection are unaffected. The same applies to a record with a front longer than `front_max` bytes,
    /// the rest of which is dropped.
    pub fn for_server(bound: usize, front_max: usize) -> Self {
        Self { takes_broken: true, front_max, ..Self::new(bound) }
    }

    /// Returns the next complete record, and removes the parsed data from `bytes`.
    pub fn next(
        &mut self,
        bytes: &mut Segment,
        splitter: &mut dyn Splitter,
    ) -> Result<Option<Record>, RecordError> {
        if self.is_between_records()
            && let Some(record) = self.take_whole(bytes, splitter)
        {
            return Ok(Some(record));
        }
        let record = self.next_in_stages(bytes, splitter);
        if let Ok(None) = record {
            // A partial message must not keep the receive buffer that it shares with other messages.
            self.front.settle();
            self.payload.settle();
        }
        record
    }

    fn next_in_stages(
        &mut self,
        bytes: &mut Segment,
        splitter: &mut dyn Splitter,
    ) -> Result<Option<Record>, RecordError> {
        loop {
            let Some(left) = self.fragment else {
                let Some((mark, used)) = self.mark.take(MARK_LEN, bytes) else { return Ok(None) };
                let mark = u32::from_be_bytes(mark.try_into().expect("a mark has four bytes"));
                bytes.advance(used);
                self.begin_fragment(mark)?;
                continue;
            };
            if left == 0 {
                self.fragment = None;
                if self.last {
                    return self.end().map(Some);
                }
                continue;
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            let used = self.take(bytes, left, splitter)?;
            self.fragment = Some(left - used);
        }
    }

    fn is_between_records(&self) -> bool {
        self.fragment.is_none() && self.len == 0 && self.mark.is_empty()
    }

    /// Fast path for a record that lies completely in `bytes` in one fragment, as most records without bulk data do.
    /// Returns `None` for anything unusual, including errors, which the stages then report.
    fn take_whole(&mut self, bytes: &mut Segment, splitter: &mut dyn Splitter) -> Option<Record> {
        let (mark, behind) = bytes.split_first_chunk()?;
        let mark = u32::from_be_bytes(*mark);
        let len = (mark & !LAST) as usize;
        let message =
            behind.get(..len).filter(|_| mark & LAST != 0 && (START_LEN..=self.bound).contains(&len))?;
        let (front, payload) = match splitter.split(message) {
            Split::At(front, payload) if front + payload + padding(payload) == len => (front, payload),
            Split::Never if len <= self.front_max => (len, 0),
            Split::At(..) | Split::More(_) | Split::Never => return None,
        };
        let (front_end, payload_end) = (MARK_LEN + front, MARK_LEN + front + payload);
        let place = if front == len { None } else { splitter.place(&message[..front], payload) };
        self.ahead.message(if place.is_some() { payload } else { 0 });
        let mut record = Record { placed: place, ..Record::of(bytes.slice(MARK_LEN..front_end)) };
        match &mut record.placed {
            Some(place) => place.copy_from_slice(&bytes[front_end..payload_end]),
            None => record.payload.push(bytes.slice(front_end..payload_end)),
        }
        bytes.advance(MARK_LEN + len);
        Some(record)
    }

    fn begin_fragment(&mut self, mark: u32) -> Result<(), RecordError> {
        let len = (mark & !LAST) as usize;
        self.last = mark & LAST != 0;
        self.len = self.len.saturating_add(len);
        if self.len > self.bound {
            return Err(RecordError::TooLong { len: self.len, bound: self.bound });
        }
        self.fragment = Some(len);
        Ok(())
    }

    /// Consumes some of the next `left` bytes of the fragment and returns their number.
    fn take(
        &mut self,
        bytes: &mut Segment,
        left: usize,
        splitter: &mut dyn Splitter,
    ) -> Result<usize, RecordError> {
        let here = bytes.len().min(left);
        let used = match &mut self.stage {
            Stage::Start(_) if self.front.is_empty() => return self.look(bytes, here, splitter),
            Stage::Start(needed) => (*needed - self.front.len()).min(here),
            Stage::Front(front, _) => (*front - self.front.len()).min(here),
            Stage::Whole => match self.front_max.saturating_sub(self.front.len()) {
                0 => {
                    self.broken(left, 0)?;
                    return Ok(0);
                }
                room => here.min(room),
            },
            Stage::Placed(buffer, place) => {
                let used = here.min(place.left());
                place.fill(buffer, &bytes[..used]);
                bytes.advance(used);
                self.after_payload();
                return Ok(used);
            }
            Stage::Payload(to_come) => {
                let used = here.min(*to_come);
                *to_come -= used;
                self.payload.push(bytes.split_to(used));
                self.after_payload();
                return Ok(used);
            }
            Stage::Padding(0) => {
                self.broken(left, 0)?;
                return Ok(0);
            }
            Stage::Padding(to_come) => {
                let used = here.min(*to_come);
                *to_come -= used;
                bytes.advance(used);
                return Ok(used);
            }
            Stage::Broken => {
                bytes.advance(here);
                return Ok(here);
            }
        };
        self.front.push(bytes.split_to(used));
        match self.stage {
            Stage::Start(needed) if self.front.len() == needed => {
                let start = self.front.to_segment();
                self.split(splitter.split(&start));
            }
            Stage::Front(front, payload) if self.front.len() == front => {
                self.begin_payload(payload, left - used, splitter)?;
            }
            _ => {}
        }
        Ok(used)
    }

    /// Examines the start of a record in the receive buffer, which mostly contains all of the front.
    fn look(
        &mut self,
        bytes: &mut Segment,
        here: usize,
        splitter: &mut dyn Splitter,
    ) -> Result<usize, RecordError> {
        if here < START_LEN {
            self.front.push(bytes.split_to(here));
            return Ok(here);
        }
        self.split(splitter.split(&bytes[..here]));
        if matches!(self.stage, Stage::Start(_)) {
            self.front.push(bytes.split_to(here));
            return Ok(here);
        }
        Ok(0)
    }

    fn split(&mut self, split: Split) {
        self.stage = match split {
            Split::More(needed) => Stage::Start(needed.max(self.front.len() + 1)),
            Split::At(front, payload) => Stage::Front(front, payload),
            Split::Never => Stage::Whole,
        };
    }

    /// Starts the payload after a complete front; `left` bytes of the fragment remain.
    fn begin_payload(
        &mut self,
        payload: usize,
        left: usize,
        splitter: &mut dyn Splitter,
    ) -> Result<(), RecordError> {
        let expected = payload.saturating_add(padding(payload));
        let room = self.bound - (self.len - left);
        if expected > room || (self.last && expected != left) {
            return self.broken(left, expected);
        }
        let front = self.front.to_segment();
        self.stage = match splitter.place(&front, payload) {
            Some(buffer) => {
                assert_eq!(buffer.len(), payload, "a place has the size of the payload");
                self.ahead.message(payload);
                Stage::Placed(buffer, Place::new(0, payload))
            }
            None => Stage::Payload(payload),
        };
        self.after_payload();
        Ok(())
    }

    fn broken(&mut self, left: usize, expected: usize) -> Result<(), RecordError> {
        if !self.takes_broken {
            return Err(RecordError::Length { left, expected });
        }
        self.stage = Stage::Broken;
        self.payload = Pieces::default();
        self.placed = None;
        Ok(())
    }

    fn after_payload(&mut self) {
        let len = match std::mem::replace(&mut self.stage, Stage::Whole) {
            Stage::Placed(buffer, place) if place.left() == 0 && !place.is_out() => {
                self.placed.insert(buffer).len()
            }
            Stage::Payload(0) => self.payload.len(),
            other => {
                self.stage = other;
                return;
            }
        };
        self.stage = Stage::Padding(padding(len));
    }

    fn end(&mut self) -> Result<Record, RecordError> {
        let missing = match &self.stage {
            Stage::Start(_) | Stage::Whole | Stage::Broken => 0,
            Stage::Front(front, payload) => front - self.front.len() + payload,
            Stage::Placed(_, place) => place.left(),
            Stage::Payload(left) | Stage::Padding(left) => *left,
        };
        if missing > 0 {
            self.broken(0, missing)?;
        }
        let broken = matches!(self.stage, Stage::Broken);
        self.stage = Stage::Start(START_LEN);
        self.len = 0;
        if self.placed.is_none() {
            self.ahead.message(0);
        }
        Ok(Record {
            front: self.front.take().to_segment(),
            payload: self.payload.take(),
            placed: self.placed.take(),
            broken,
        })
    }

    /// Returns the size and progress of a partially received record.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        if self.is_between_records() {
            return None;
        }
        let (whole, here) = match &self.stage {
            Stage::Placed(_, place) => (place.at() + place.left(), place.at()),
            _ => (self.payload.len(), self.payload.len()),
        };
        let front = self.front.len();
        Some(Unfinished { announced: self.len.max(front + whole), held: front + here })
    }

    /// Returns the receive target for the next bytes of the stream.
    pub fn landing(&mut self) -> Landing {
        match &mut self.stage {
            Stage::Placed(buffer, place) => {
                let rest = place.left();
                let part = self.fragment.and_then(|run| place.hand_out(buffer, run));
                self.ahead.landing(part, rest)
            }
            _ => self.ahead.landing(None, 0),
        }
    }

    /// Returns the buffer from [`landing`](Self::landing), with its first `filled` bytes received.
    ///
    /// # Panics
    /// If `part` is not that buffer.
    pub fn landed(&mut self, part: SegmentMut, filled: usize) {
        let Stage::Placed(buffer, place) = &mut self.stage else { panic!("nothing was handed out") };
        place.landed(buffer, part, filled);
        self.fragment = self.fragment.map(|left| left - filled);
        self.after_payload();
    }

    /// Takes the partially filled payload buffer after the connection has ended, unless it is lent out.
    pub fn take_place(&mut self) -> Option<SegmentMut> {
        match std::mem::replace(&mut self.stage, Stage::Start(START_LEN)) {
            Stage::Placed(buffer, place) if !place.is_out() => Some(buffer),
            stage => {
                self.stage = stage;
                self.placed.take()
            }
        }
    }
}

/// Appends a message as a record of one fragment. Small parts are copied to `arena`, the rest goes to `out`, in order.
///
/// # Panics
/// If the message has 2 GiB or more.
pub fn put_record(front: &[u8], mut payload: List, arena: &mut Arena, out: &mut List) {
    let len = front.len() + payload.len() + padding(payload.len());
    let len =
        u32::try_from(len).ok().filter(|len| len & LAST == 0).expect("a fragment is shorter than 2 GiB");
    arena.put(&(LAST | len).to_be_bytes(), out);
    arena.bytes(front, out);
    if !payload.is_empty() {
        let padding = padding(payload.len());
        arena.pieces(&mut payload, out, |_| {});
        arena.put(&[0; 3][..padding], out);
    }
}
