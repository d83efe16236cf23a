//! Messages on a stream: records, each in one fragment or several (RFC 5531, section 11).

use crate::xdr::padding;
use onego_buf::{Arena, List, Segment, SegmentMut};
use onego_wire::{Ahead, Landing, Part, Pieces, Place, Unfinished};
use thiserror::Error;

/// Bytes of the mark before a fragment.
const MARK_LEN: usize = 4;
/// The bit of a mark that says that the fragment is the record's last.
const LAST: u32 = 1 << 31;

/// Where the payload of a message begins, as far as its first bytes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// That takes this many bytes of the message, more than are here.
    More(usize),
    /// The length of the front, which is all here, and that of the payload, which follows it.
    At(usize, usize),
    /// It has none: all of it is front.
    Never,
}

/// Says what the messages of a stream are made of, and where payloads go.
pub trait Splitter {
    /// Where the payload of the message begins whose first bytes these are.
    fn split(&mut self, start: &[u8]) -> Split;

    /// A buffer of that many bytes for the payload of the message with this front. `None`: it is to be handed over in the
    /// memory in which it is received.
    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut>;
}

/// A message: see the [crate] on what its parts are.
#[derive(Debug)]
pub struct Record {
    /// Encoded words.
    pub front: Segment,
    /// The payload, as it was received...
    pub payload: List,
    /// ...or in the place that it was given.
    pub placed: Option<SegmentMut>,
    /// The payload is not as long as the front says, and was left out (see [`RecordReader::for_server`]).
    pub broken: bool,
}

impl Record {
    /// A message that is all front.
    pub fn of(front: Segment) -> Self {
        Self { front, payload: List::new(), placed: None, broken: false }
    }
}

/// Bytes that are no records. The connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// It is longer than anything that is expected.
    #[error("a record has {len} bytes or more, and {bound} are the bound")]
    TooLong {
        /// Bytes of the fragments that have begun.
        len: usize,
        /// The bound.
        bound: usize,
    },
    /// It ends within its payload, or has bytes behind it.
    #[error("a record has {left} bytes left where {expected} of its payload are expected")]
    Length {
        /// Bytes left.
        left: usize,
        /// Bytes expected, with those that fill up the last unit.
        expected: usize,
    },
}

/// How far the record is that comes in.
#[derive(Debug)]
enum Stage {
    /// Its first bytes, with the number that is needed to see what it is.
    Start(usize),
    /// The front, with its length and that of the payload behind it.
    Front(usize, usize),
    /// The payload, into its place.
    Placed(SegmentMut, Place),
    /// The payload, with the number of bytes that are to come.
    Payload(usize),
    /// The padding of the payload, with its length.
    Padding(usize),
    /// All is front.
    Whole,
    /// What is left of a record whose payload is not as long as its front says.
    Broken,
}

/// Takes records from a stream.
#[derive(Debug)]
pub struct RecordReader {
    /// The most bytes of a record.
    bound: usize,
    /// The most bytes of a front.
    front_max: usize,
    /// Is it no error if a payload is not as long as its front says?
    takes_broken: bool,
    mark: Part<MARK_LEN>,
    /// Bytes of the fragment that are to come. `None`: its mark.
    fragment: Option<usize>,
    last: bool,
    /// Bytes of the record's fragments so far.
    len: usize,
    stage: Stage,
    front: Pieces,
    payload: Pieces,
    placed: Option<SegmentMut>,
    ahead: Ahead,
}

/// Bytes by which every message can be told: its number and its type.
const START_LEN: usize = 8;

impl RecordReader {
    /// Takes records of at most `bound` bytes.
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

    /// The same for a server: where a payload is not as long as its front says, the record is left where it ends and handed
    /// over as broken. Its sender is to be told that its arguments cannot be read (RFC 5531, section 9: `GARBAGE_ARGS`), and
    /// other calls on the connection are none the worse. The same happens to a record whose front is longer than
    /// `front_max` bytes: the rest of it is dropped as it comes.
    pub fn for_server(bound: usize, front_max: usize) -> Self {
        Self { takes_broken: true, front_max, ..Self::new(bound) }
    }

    /// The next record, once all of it is here. What is used up of `bytes` is cut off.
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
            // What is here of a message must not keep the memory that many messages are received in.
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

    /// The next record, if all of it lies here in one fragment, as records without bulk mostly do: then it goes through no
    /// stages. What is wrong with it shows in them.
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

    /// Takes some of the next `left` bytes, which belong to the fragment, and says how many.
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

    /// Looks at the start of a record where it lies: mostly all of the front is there.
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

    /// The front is here, and `left` bytes of the fragment are to come.
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

    /// The record has `left` bytes left where `expected` bytes of its payload are to come.
    fn broken(&mut self, left: usize, expected: usize) -> Result<(), RecordError> {
        if !self.takes_broken {
            return Err(RecordError::Length { left, expected });
        }
        self.stage = Stage::Broken;
        self.payload = Pieces::default();
        self.placed = None;
        Ok(())
    }

    /// Goes on to what is behind the payload, if all of it is here.
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

    /// The record's last fragment is here as a whole.
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

    /// The record of which a part has come and a part has not.
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

    /// Where the next bytes of the stream go.
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

    /// What [`landing`](Self::landing) gave comes back, its first `filled` bytes received.
    ///
    /// # Panics
    /// If it is not that buffer.
    pub fn landed(&mut self, part: SegmentMut, filled: usize) {
        let Stage::Placed(buffer, place) = &mut self.stage else { panic!("nothing was handed out") };
        place.landed(buffer, part, filled);
        self.fragment = self.fragment.map(|left| left - filled);
        self.after_payload();
    }

    /// The place of the payload that is coming in, if it is not out: the connection is over.
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

/// Appends a message as a record of one fragment: to `arena` what is small, to `out` the rest, in order.
///
/// # Panics
/// If it has 2 GiB or more: nothing that is sent comes near.
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
