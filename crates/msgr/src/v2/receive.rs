//! Splits the byte stream into the banner and frames, wherever it is cut.
//!
//! Small fixed parts are read in place from a received segment, or from a scratch buffer if they are fragmented.

use super::banner::{Banner, PREFIX_LEN};
use super::frame::{
    CRC_LEN, CachedPreamble, EPILOGUE_LEN, Epilogue, Framing, MAX_SEGMENTS, PREAMBLE_LEN, Preamble,
    SEGMENT_SEED,
};
use super::header::HEADER_LEN;
use super::input::{Frame, HEADER_SIZE, PARTS, announced, check_preamble};
use super::secure::OpenRx;
use super::secure_receive::SecureReceiver;
use super::unpack::Unpacker;
use crate::config::Limits;
use crate::error::Error;
use crate::message::{Header, Message, NoPlacer, Placer};
use crate::protocol::{Input, Receive};
use crate::receive::body::Body;
use crate::receive::gather::gather;
use crate::tag::Tag;
use onego_buf::{Pool, Segment, SegmentMut};
use onego_wire::{Landing, Part, Unfinished};

const PART_MAX: usize = HEADER_LEN + CRC_LEN;
const _: () = assert!(PART_MAX >= PREAMBLE_LEN && PART_MAX >= EPILOGUE_LEN && PART_MAX >= PREFIX_LEN);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    BannerPrefix,
    BannerPayload(usize),
    Preamble,
    Control,
    Header,
    Body,
    /// Header and body of a compressed message.
    PackedHeader,
    PackedBody,
    Epilogue,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    /// Takes over in secure mode.
    secure: Option<Box<SecureReceiver>>,
    unpacker: Option<Box<Unpacker>>,
    /// Everything received before authentication; it will be signed.
    transcript: Option<Vec<u8>>,
    framing: Framing,
    limits: Limits,
    stage: Stage,
    messages: bool,
    part: Part<PART_MAX>,
    /// Preamble of the current frame.
    last: CachedPreamble,
    header: Header,
    /// Second to fourth segment of a message.
    body: Body,
    /// Bytes received of a fragmented banner or control frame.
    gathered: Vec<u8>,
}

impl Receiver {
    pub(super) fn new(framing: Framing, limits: Limits) -> Self {
        Self {
            secure: None,
            unpacker: None,
            transcript: Some(Vec::new()),
            framing,
            limits,
            stage: Stage::BannerPrefix,
            messages: false,
            part: Part::default(),
            last: CachedPreamble::new(Preamble::new(Tag::Ack, [0; MAX_SEGMENTS])),
            header: Header::default(),
            body: Body::new(SEGMENT_SEED),
            gathered: Vec::new(),
        }
    }

    pub(super) fn allow_messages(&mut self) {
        self.messages = true;
        if let Some(secure) = &mut self.secure {
            secure.allow_messages();
        }
    }

    pub(super) fn secure(&mut self, keys: OpenRx, pool: Pool) {
        self.secure = Some(Box::new(SecureReceiver::new(keys, self.limits, pool)));
    }

    pub(super) fn unpack(&mut self, unpacker: Unpacker) {
        match &mut self.secure {
            Some(secure) => secure.unpack(unpacker),
            None => self.unpacker = Some(Box::new(unpacker)),
        }
    }

    /// Returns everything received so far and stops recording.
    pub(super) fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    /// Takes the first segment of a compressed message. Returns whether it is complete.
    fn packed_header(&mut self, bytes: &mut Segment) -> Result<bool, Error> {
        let len = self.framing.first_len(self.last.preamble());
        let Some(mut first) = gather(&mut self.gathered, len, bytes) else { return Ok(false) };
        let len = self.framing.open_first(&first, "a message's header")?.len();
        first.truncate(len);
        self.unpacker.as_mut().ok_or(Error::NotAgreed)?.begin(first);
        let [_, lens @ ..] = self.last.preamble().lens;
        self.body.begin(lens.map(|len| len as usize), self.framing.sums(), false);
        self.stage = Stage::PackedBody;
        Ok(true)
    }
}

impl Receive for Receiver {
    type Frame = Frame;

    fn landing(&mut self) -> Landing {
        if let Some(secure) = &mut self.secure {
            return secure.landing();
        }
        self.body.landing()
    }

    fn landed(&mut self, rest: SegmentMut, filled: usize) {
        if let Some(secure) = &mut self.secure {
            return secure.landed(rest, filled);
        }
        self.body.landed(rest, filled);
    }

    #[inline]
    fn unfinished(&self) -> Option<Unfinished> {
        if let Some(secure) = &self.secure {
            return secure.unfinished();
        }
        if self.stage == Stage::Preamble && self.part.is_empty() {
            return None;
        }
        let announced = match self.stage {
            Stage::Preamble => 0,
            _ => announced(self.last.preamble(), &self.limits),
        };
        Some(Unfinished { announced, held: self.gathered.len() + self.body.held() })
    }

    fn take_place(&mut self) -> Option<(Header, SegmentMut)> {
        if let Some(secure) = &mut self.secure {
            return secure.take_place();
        }
        match self.body.take_place() {
            Some(place) => Some((self.header, place)),
            None => self.unpacker.as_mut()?.take_place(),
        }
    }

    fn next(&mut self, bytes: &mut Segment, placer: &mut dyn Placer) -> Result<Option<Input<Frame>>, Error> {
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
                    return Ok(Some(Input::Frame(Frame::Banner(Banner::decode(&payload)?))));
                }
                Stage::Preamble => {
                    let len = self.framing.preamble_len();
                    let Some((preamble, used)) = self.part.take(len, bytes) else { return Ok(None) };
                    self.last.take(preamble, |bytes| self.framing.open_preamble(bytes))?;
                    record(&mut self.transcript, preamble);
                    bytes.advance(used);
                    let unpacks = self.unpacker.is_some();
                    check_preamble(self.last.preamble(), self.messages, unpacks, &self.limits)?;
                    self.stage = first_stage(self.last.preamble());
                }
                Stage::Control => {
                    let len = self.framing.first_len(self.last.preamble());
                    let Some(mut payload) = gather(&mut self.gathered, len, bytes) else { return Ok(None) };
                    record(&mut self.transcript, &payload);
                    let len = self.framing.open_first(&payload, "a control frame")?.len();
                    payload.truncate(len);
                    self.stage = Stage::Preamble;
                    if self.last.preamble().compressed {
                        payload = self.unpacker.as_mut().ok_or(Error::NotAgreed)?.control(&payload)?;
                    }
                    return Ok(Some(Input::Frame(Frame::Control(self.last.preamble().tag, payload))));
                }
                Stage::Header => {
                    let len = self.framing.first_len(self.last.preamble());
                    let Some((first, used)) = self.part.take(len, bytes) else { return Ok(None) };
                    let header = self.framing.open_first(first, "a message's header")?;
                    self.header = Header::from_wire(header.try_into().map_err(|_| HEADER_SIZE)?)?;
                    bytes.advance(used);
                    let [_, lens @ ..] = self.last.preamble().lens;
                    let discards = self.limits.discards(lens[2]);
                    self.body.begin(lens.map(|len| len as usize), self.framing.sums(), discards);
                    self.stage = Stage::Body;
                }
                Stage::Body => {
                    if !self.body.take(&self.header, bytes, placer) {
                        return Ok(None);
                    }
                    self.stage = Stage::Epilogue;
                }
                Stage::PackedHeader => {
                    if !self.packed_header(bytes)? {
                        return Ok(None);
                    }
                }
                Stage::PackedBody => {
                    if !self.body.take(&Header::default(), bytes, &mut NoPlacer) {
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
                            match self.body.drop_aborted() {
                                Some(place) => return Ok(Some(Input::Aborted(self.header, place))),
                                None => continue,
                            }
                        }
                        self.framing
                            .check(self.last.preamble(), self.body.crcs(), crcs)
                            .map_err(|part| Error::Corrupt(PARTS[part]))?;
                    }
                    self.stage = Stage::Preamble;
                    if self.last.preamble().compressed {
                        let packed = self.body.take_message(Header::default());
                        let unpacker = self.unpacker.as_mut().ok_or(Error::NotAgreed)?;
                        self.header = unpacker.message(&packed, placer)?;
                    }
                    return Ok(Some(Input::Message));
                }
            }
        }
    }

    #[inline]
    fn header(&self) -> &Header {
        match &self.secure {
            Some(secure) => secure.header(),
            None => &self.header,
        }
    }

    #[inline]
    fn take_message(&mut self) -> Message {
        if let Some(secure) = &mut self.secure {
            return secure.take_message();
        }
        if let Some(message) = self.unpacker.as_mut().and_then(|unpacker| unpacker.take_message()) {
            return message;
        }
        self.body.take_message(self.header)
    }
}

#[inline]
fn record(transcript: &mut Option<Vec<u8>>, bytes: &[u8]) {
    if let Some(transcript) = transcript {
        transcript.extend_from_slice(bytes);
    }
}

fn first_stage(preamble: &Preamble) -> Stage {
    match preamble.tag {
        Tag::Message if preamble.compressed => Stage::PackedHeader,
        Tag::Message => Stage::Header,
        _ => Stage::Control,
    }
}
