//! Takes the stream of bytes apart: banner, then frames, wherever the bytes of a frame are cut.
//!
//! Small fixed parts are read from a received segment where they lie, or from a scratch buffer if they are cut.
//! Fronts and payloads are slices of what was received. Only a front that is cut, and a payload that has a place, are
//! copied: the payload only as far as it was here before its place was known.

use super::banner::{Banner, PREFIX_LEN};
use super::config::Limits;
use super::error::Error;
use super::frame::{
    CRC_LEN, EPILOGUE_LEN, Epilogue, Framing, HEADER_LEN, Known, MAX_SEGMENTS, PREAMBLE_LEN, Preamble,
    SEGMENT_SEED, Tag,
};
use super::message::{Header, Message, Placer};
use super::secure::OpenRx;
use super::secure_receive::SecureReceiver;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_wire::Landing;

/// Bytes that are asked for ahead as a rule: many small messages a system call.
pub(super) const AHEAD: usize = 256 << 10;

/// Bytes that are asked for ahead while large payloads come in that have places: behind a payload it covers the
/// epilogue and the next message up to its payload (13 + 32 + 45 bytes and a front of a few hundred). What is more
/// would be payload that has to be copied to its place; what is less would take one more system call a message.
pub(super) const AHEAD_OF_BULK: usize = 1 << 10;

/// Payload from which on a connection is taken to carry bulk: copying less costs less than the system calls that
/// small reads ahead cost.
pub(super) const BULK: usize = 32 << 10;

/// Rest of a payload from which on it is received right into its place: copying a page costs less than one more
/// vector in a receive, and much less than an engine that leaves its shared buffers.
pub(super) const LAND: usize = 4 << 10;

/// Bytes that are copied to a place and summed up in one go, so that the sum finds them in the first-level cache.
pub(super) const COPY_CHUNK: usize = 16 << 10;

/// The most bytes of a fixed part.
const PART_MAX: usize = HEADER_LEN + CRC_LEN;
const _: () = assert!(PART_MAX >= PREAMBLE_LEN && PART_MAX >= EPILOGUE_LEN && PART_MAX >= PREFIX_LEN);

/// The second to fourth segment of a message.
const PARTS: [&str; MAX_SEGMENTS - 1] = ["a message's front", "a message's middle", "a message's payload"];

pub(super) const HEADER_SIZE: Error = Error::BadFrame("a message header of another size");

/// Something whole that was received.
#[derive(Debug)]
pub(super) enum Input {
    Banner(Banner),
    Control(Tag, Segment),
    /// A message, to be had by [`Receiver::take_message`]: it is moved once, to where it stays.
    Message,
    /// A message whose sender gave it up half way, with the place that was meant for its payload.
    Aborted(Header, SegmentMut),
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    BannerPrefix,
    BannerPayload(usize),
    Preamble,
    Control,
    Header,
    Front,
    Middle,
    Data,
    Epilogue,
}

/// The place of a payload.
#[derive(Debug)]
pub(super) struct Place {
    /// The whole place, or what is filled of it while the rest is out.
    pub(super) buffer: SegmentMut,
    /// Bytes that are filled.
    pub(super) filled: usize,
    /// Is the rest out for a receive?
    pub(super) out: bool,
}

/// A fixed part that may be cut.
#[derive(Debug)]
struct Part {
    bytes: [u8; PART_MAX],
    filled: usize,
}

impl Part {
    /// The next `n` bytes once all are here, and how many of `from` are used up by them: read where they lie, if they
    /// lie there in one piece.
    #[inline]
    fn take<'a>(&'a mut self, n: usize, from: &'a mut Segment) -> Option<(&'a [u8], usize)> {
        if self.filled == 0 && from.len() >= n {
            return Some((&from[..n], n));
        }
        self.take_cut(n, from)
    }

    #[cold]
    fn take_cut(&mut self, n: usize, from: &mut Segment) -> Option<(&[u8], usize)> {
        let more = (n - self.filled).min(from.len());
        self.bytes[self.filled..self.filled + more].copy_from_slice(&from[..more]);
        self.filled += more;
        if self.filled < n {
            from.advance(more);
            return None;
        }
        self.filled = 0;
        Some((&self.bytes[..n], more))
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// Takes over once the connection is in secure mode.
    secure: Option<Box<SecureReceiver>>,
    /// All that came until both sides know each other: it will be signed.
    transcript: Option<Vec<u8>>,
    framing: Framing,
    limits: Limits,
    stage: Stage,
    /// May messages come, or is the handshake still going on?
    messages: bool,
    /// Does the connection carry bulk at the moment?
    bulk: bool,
    part: Part,
    /// The preamble of the frame that is being received.
    last: Known,
    header: Header,
    /// Checksums of the second to fourth segment as they were received.
    crcs: [u32; MAX_SEGMENTS - 1],
    /// What is here of a banner, a control frame, a front or a middle that came in pieces. A copy: slices would keep
    /// a block of received memory for each piece, and end in a copy all the same.
    gathered: Vec<u8>,
    front: Option<Segment>,
    middle: Option<Segment>,
    data: List,
    place: Option<Place>,
}

impl Receiver {
    pub(super) fn new(framing: Framing, limits: Limits) -> Self {
        Self {
            secure: None,
            transcript: Some(Vec::new()),
            framing,
            limits,
            stage: Stage::BannerPrefix,
            messages: false,
            bulk: false,
            part: Part { bytes: [0; PART_MAX], filled: 0 },
            last: Known::new(Preamble::new(Tag::Ack, [0; MAX_SEGMENTS])),
            header: Header::default(),
            crcs: [SEGMENT_SEED; MAX_SEGMENTS - 1],
            gathered: Vec::new(),
            front: None,
            middle: None,
            data: List::new(),
            place: None,
        }
    }

    /// From now on messages may come.
    pub(super) fn allow_messages(&mut self) {
        self.messages = true;
        if let Some(secure) = &mut self.secure {
            secure.allow_messages();
        }
    }

    /// What follows is encrypted.
    pub(super) fn secure(&mut self, keys: OpenRx, pool: Pool) {
        self.secure = Some(Box::new(SecureReceiver::new(keys, self.limits, pool)));
    }

    /// All that came so far. It is asked for once, and no more is kept then.
    pub(super) fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    /// Where the next bytes go.
    pub(super) fn landing(&mut self) -> Landing {
        if let Some(secure) = &mut self.secure {
            return secure.landing();
        }
        let ahead = if self.bulk { AHEAD_OF_BULK } else { AHEAD };
        let Some(place) = &mut self.place else { return Landing { place: None, ahead } };
        assert!(!place.out, "the place that was handed out comes back before the next is asked for");
        let rest = place.buffer.len() - place.filled;
        if rest < LAND {
            return Landing { place: None, ahead: ahead + rest };
        }
        place.out = true;
        let filled = place.buffer.split_to(place.filled);
        let rest = std::mem::replace(&mut place.buffer, filled);
        Landing { place: Some(rest), ahead }
    }

    /// The rest of a place comes back with `filled` bytes more.
    pub(super) fn landed(&mut self, rest: SegmentMut, filled: usize) {
        if let Some(secure) = &mut self.secure {
            return secure.landed(rest, filled);
        }
        let place = self.place.as_mut().filter(|place| place.out).expect("only what was handed out lands");
        self.crcs[2] = self.framing.sum(self.crcs[2], &rest[..filled]);
        place.buffer.try_join(rest).expect("what lands is the buffer that was handed out");
        place.filled += filled;
        place.out = false;
    }

    /// The place of the message that is being received, if it is not out.
    pub(super) fn take_place(&mut self) -> Option<(Header, SegmentMut)> {
        if let Some(secure) = &mut self.secure {
            return secure.take_place();
        }
        let place = self.place.take_if(|place| !place.out)?;
        Some((self.header, place.buffer))
    }

    /// The next whole thing in `bytes` and what was received before. `None`: all bytes are used up. A message that it
    /// tells of is taken before it is asked again.
    pub(super) fn next(
        &mut self,
        bytes: &mut Segment,
        placer: &mut dyn Placer,
    ) -> Result<Option<Input>, Error> {
        if let Some(secure) = &mut self.secure {
            return secure.next(bytes, placer);
        }
        loop {
            match self.stage {
                Stage::BannerPrefix => {
                    let Some((prefix, used)) = self.part.take(PREFIX_LEN, bytes) else { return Ok(None) };
                    record(&mut self.transcript, prefix);
                    self.stage = Stage::BannerPayload(Banner::payload_len(prefix)?);
                    bytes.advance(used);
                }
                Stage::BannerPayload(len) => {
                    let Some(payload) = gather(&mut self.gathered, len, bytes) else { return Ok(None) };
                    record(&mut self.transcript, &payload);
                    self.stage = Stage::Preamble;
                    return Ok(Some(Input::Banner(Banner::decode(&payload)?)));
                }
                Stage::Preamble => {
                    let len = self.framing.preamble_len();
                    let Some((preamble, used)) = self.part.take(len, bytes) else { return Ok(None) };
                    self.last.take(preamble, |bytes| self.framing.open_preamble(bytes))?;
                    record(&mut self.transcript, preamble);
                    bytes.advance(used);
                    self.stage = check_preamble(self.last.preamble(), self.messages, &self.limits)?;
                }
                Stage::Control => {
                    let len = self.framing.first_len(self.last.preamble());
                    let Some(mut payload) = gather(&mut self.gathered, len, bytes) else { return Ok(None) };
                    record(&mut self.transcript, &payload);
                    let len = self.framing.open_first(&payload, "a control frame")?.len();
                    payload.truncate(len);
                    self.stage = Stage::Preamble;
                    return Ok(Some(Input::Control(self.last.preamble().tag, payload)));
                }
                Stage::Header => {
                    let len = self.framing.first_len(self.last.preamble());
                    let Some((first, used)) = self.part.take(len, bytes) else { return Ok(None) };
                    let header = self.framing.open_first(first, "a message's header")?;
                    self.header = Header::from_wire(header.try_into().map_err(|_| HEADER_SIZE)?)?;
                    bytes.advance(used);
                    self.crcs = [SEGMENT_SEED; MAX_SEGMENTS - 1];
                    self.stage = Stage::Front;
                }
                Stage::Front => {
                    let len = self.last.preamble().lens[1] as usize;
                    let Some(front) = gather(&mut self.gathered, len, bytes) else { return Ok(None) };
                    self.crcs[0] = self.framing.sum(SEGMENT_SEED, &front);
                    self.front = Some(front);
                    self.stage = Stage::Middle;
                }
                Stage::Middle => {
                    let len = self.last.preamble().lens[2] as usize;
                    if len > 0 {
                        let Some(middle) = gather(&mut self.gathered, len, bytes) else { return Ok(None) };
                        self.crcs[1] = self.framing.sum(SEGMENT_SEED, &middle);
                        self.middle = Some(middle);
                    }
                    self.find_place(placer);
                    self.stage = if self.last.preamble().lens[3] > 0 { Stage::Data } else { Stage::Epilogue };
                }
                Stage::Data => {
                    if !self.take_data(bytes) {
                        return Ok(None);
                    }
                    self.stage = Stage::Epilogue;
                }
                Stage::Epilogue => {
                    if self.framing.epilogue_len(self.last.preamble()) > 0 {
                        let Some((epilogue, used)) = self.part.take(EPILOGUE_LEN, bytes) else {
                            return Ok(None);
                        };
                        let Epilogue { aborted, crcs } = self.framing.open_epilogue(epilogue)?;
                        bytes.advance(used);
                        if aborted {
                            self.stage = Stage::Preamble;
                            match self.give_up_message() {
                                Some(aborted) => return Ok(Some(aborted)),
                                None => continue,
                            }
                        }
                        self.framing
                            .check(self.last.preamble(), self.crcs, crcs)
                            .map_err(|part| Error::Corrupt(PARTS[part]))?;
                    }
                    self.stage = Stage::Preamble;
                    return Ok(Some(Input::Message));
                }
            }
        }
    }

    /// Asks where the payload goes, now that the message is known up to it.
    fn find_place(&mut self, placer: &mut dyn Placer) {
        let len = self.last.preamble().lens[3] as usize;
        let front = self.front.as_deref().unwrap_or_default();
        let buffer = if len > 0 { placer.place(&self.header, front, len) } else { None };
        self.bulk = buffer.is_some() && len >= BULK;
        self.place = buffer.map(|buffer| {
            assert_eq!(buffer.len(), len, "a place has the size of the payload");
            Place { buffer, filled: 0, out: false }
        });
    }

    /// Takes what is here of the payload. `true`: all of it is here.
    fn take_data(&mut self, bytes: &mut Segment) -> bool {
        let len = self.last.preamble().lens[3] as usize;
        let Some(place) = &mut self.place else {
            let more = bytes.len().min(len - self.data.len());
            if more > 0 {
                let piece = bytes.split_to(more);
                self.crcs[2] = self.framing.sum(self.crcs[2], &piece);
                self.data.push(piece);
            }
            return self.data.len() == len;
        };
        assert!(!place.out, "bytes behind a place that is out come after it");
        let taken = bytes.len().min(len - place.filled);
        for chunk in bytes[..taken].chunks(COPY_CHUNK) {
            place.buffer[place.filled..place.filled + chunk.len()].copy_from_slice(chunk);
            self.crcs[2] = self.framing.sum(self.crcs[2], chunk);
            place.filled += chunk.len();
        }
        bytes.advance(taken);
        place.filled == len
    }

    /// The message that [`next`](Self::next) has just told of.
    #[inline]
    pub(super) fn take_message(&mut self) -> Message {
        if let Some(secure) = &mut self.secure {
            return secure.take_message();
        }
        Message {
            header: self.header,
            front: self.front.take().unwrap_or_else(|| Segment::from_static(b"")),
            middle: self.middle.take(),
            data: std::mem::take(&mut self.data),
            placed: self.place.take().map(|place| place.buffer),
        }
    }

    /// Forgets a message whose sender gave it up.
    fn give_up_message(&mut self) -> Option<Input> {
        self.bulk = false;
        let Message { header, placed, .. } = self.take_message();
        placed.map(|place| Input::Aborted(header, place))
    }
}

/// The next `want` bytes in one piece once all are here: copied together only if they came in pieces.
pub(super) fn gather(have: &mut Vec<u8>, want: usize, bytes: &mut Segment) -> Option<Segment> {
    if have.is_empty() && bytes.len() >= want {
        return Some(bytes.split_to(want));
    }
    if have.capacity() == 0 {
        // No more than may come with one receive: beyond that memory is taken as bytes really come.
        have.reserve_exact(want.min(AHEAD));
    }
    let more = bytes.len().min(want - have.len());
    have.extend_from_slice(&bytes[..more]);
    bytes.advance(more);
    (have.len() == want).then(|| std::mem::take(have).into())
}

/// Keeps `bytes` if all that comes is still to be signed.
#[inline]
fn record(transcript: &mut Option<Vec<u8>>, bytes: &[u8]) {
    if let Some(transcript) = transcript {
        transcript.extend_from_slice(bytes);
    }
}

/// Checks that a frame of that kind and size may come now, and says what comes next of it. `messages`: is the
/// handshake over?
pub(super) fn check_preamble(preamble: &Preamble, messages: bool, limits: &Limits) -> Result<Stage, Error> {
    let Preamble { tag, lens, segments } = *preamble;
    let bounded = |what, len: u32, bound: u32| {
        if len <= bound { Ok(()) } else { Err(Error::TooLong { what, len: len.into(), bound: bound.into() }) }
    };
    if tag != Tag::Message {
        if segments > 1 {
            return Err(Error::BadFrame("several segments where there is one"));
        }
        bounded("control frame", lens[0], limits.control)?;
        return Ok(Stage::Control);
    }
    if !messages {
        return Err(Error::Unexpected { tag, state: "the handshake goes on" });
    }
    if lens[0] as usize != HEADER_LEN {
        return Err(HEADER_SIZE);
    }
    bounded("message front", lens[1], limits.front)?;
    bounded("message middle", lens[2], limits.middle)?;
    bounded("message payload", lens[3], limits.data)?;
    Ok(Stage::Header)
}
