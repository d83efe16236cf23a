//! Splits the byte stream, wherever it is cut: parts of the handshake, then tagged frames.

use super::frame::{FOOTER_MAX, Footer, Footers, HEADER_LEN, Lens, read_header, tag};
use crate::auth::Key;
use crate::config::Limits;
use crate::error::Error;
use crate::message::{Header, Message, Placer, Sums};
use crate::protocol::{Input, Receive};
use crate::receive::body::Body;
use crate::receive::gather::gather;
use crate::types::Utime;
use crate::types::encoding::Decode;
use onego_buf::{Segment, SegmentMut};
use onego_wire::{Landing, Part, Reader, Unfinished};

const STAMP_LEN: usize = 8;
const SEQ_LEN: usize = 8;

const PART_MAX: usize = HEADER_LEN;
const _: () = assert!(PART_MAX >= FOOTER_MAX && PART_MAX >= STAMP_LEN && PART_MAX >= SEQ_LEN);

#[derive(Debug)]
pub(crate) enum Frame {
    Part(Segment),
    Alive,
    Keepalive2(Utime),
    Ack(u64),
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Part(usize),
    Tag,
    Stamp { answer: bool },
    Ack,
    Header,
    Body,
    Footer,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    limits: Limits,
    stage: Stage,
    footers: Footers,
    checks_data: bool,
    /// Whether the last message came with a payload checksum.
    data_crc: bool,
    header: Header,
    header_crc: u32,
    lens: Lens,
    key: Option<Key>,
    body: Body,
    part: Part<PART_MAX>,
    /// Bytes received of a fragmented handshake part.
    gathered: Vec<u8>,
}

impl Receiver {
    pub(super) fn new(limits: Limits, checks_data: bool) -> Self {
        Self {
            limits,
            stage: Stage::Part(0),
            footers: Footers { has_room: false },
            checks_data,
            data_crc: true,
            header: Header::default(),
            header_crc: 0,
            lens: [0; 3],
            key: None,
            body: Body::new(0),
            part: Part::default(),
            gathered: Vec::new(),
        }
    }

    pub(super) fn want_part(&mut self, len: usize) {
        self.stage = Stage::Part(len);
    }

    /// Ends the handshake: tagged frames follow, with messages signed with `key`.
    pub(super) fn allow_messages(&mut self, footers: Footers, key: Option<Key>) {
        self.footers = footers;
        self.key = key;
        self.stage = Stage::Tag;
    }

    pub(super) fn peer_omits_data_crc(&self) -> bool {
        !self.data_crc
    }

    /// Handles a tag, which is a frame by itself or starts one.
    fn tagged(&mut self, tag: u8) -> Result<Option<Frame>, Error> {
        self.stage = match tag {
            tag::KEEPALIVE => return Ok(Some(Frame::Alive)),
            tag::CLOSE => return Ok(Some(Frame::Close)),
            tag::KEEPALIVE2 => Stage::Stamp { answer: true },
            tag::KEEPALIVE2_ACK => Stage::Stamp { answer: false },
            tag::ACK => Stage::Ack,
            tag::MESSAGE => Stage::Header,
            _ => return Err(Error::UnknownTag(tag)),
        };
        Ok(None)
    }

    /// Checks the message against its footer. Fronts and middles always have checksums.
    fn check(&mut self, footer: Footer) -> Result<(), Error> {
        let [front, middle, _] = self.body.crcs();
        if front != footer.front_crc {
            return Err(Error::Corrupt("a message's front"));
        }
        if middle != footer.middle_crc {
            return Err(Error::Corrupt("a message's middle"));
        }
        if let Some(crc) = footer.data_crc
            && self.checks_data
            && self.body.data_crc() != crc
        {
            return Err(Error::Corrupt("a message's payload"));
        }
        if let Some(key) = &self.key
            && footer.signature != Some(footer.sign(key, self.header_crc, self.lens, self.header.seq))
        {
            return Err(Error::BadMessageSignature);
        }
        self.data_crc = footer.data_crc.is_some();
        Ok(())
    }
}

impl Receive for Receiver {
    type Frame = Frame;

    fn landing(&mut self) -> Landing {
        self.body.landing()
    }

    fn landed(&mut self, rest: SegmentMut, filled: usize) {
        self.body.landed(rest, filled);
    }

    #[inline]
    fn unfinished(&self) -> Option<Unfinished> {
        let announced = match self.stage {
            Stage::Tag => return None,
            Stage::Body | Stage::Footer => self.limits.kept(self.lens).iter().map(|len| *len as usize).sum(),
            _ => 0,
        };
        Some(Unfinished { announced, held: self.gathered.len() + self.body.held() })
    }

    fn take_place(&mut self) -> Option<(Header, SegmentMut)> {
        Some((self.header, self.body.take_place()?))
    }

    fn next(&mut self, bytes: &mut Segment, placer: &mut dyn Placer) -> Result<Option<Input<Frame>>, Error> {
        loop {
            match self.stage {
                Stage::Part(len) => {
                    return Ok(
                        gather(&mut self.gathered, len, bytes).map(|part| Input::Frame(Frame::Part(part)))
                    );
                }
                Stage::Tag => {
                    let Some(&tag) = bytes.first() else { return Ok(None) };
                    bytes.advance(1);
                    match self.tagged(tag)? {
                        Some(frame) => return Ok(Some(Input::Frame(frame))),
                        None => continue,
                    }
                }
                Stage::Stamp { answer } => {
                    let Some((stamp, used)) = self.part.take(STAMP_LEN, bytes) else { return Ok(None) };
                    let stamp = Utime::decode(&mut Reader::new(stamp))?;
                    bytes.advance(used);
                    self.stage = Stage::Tag;
                    return Ok(Some(Input::Frame(if answer {
                        Frame::Keepalive2(stamp)
                    } else {
                        Frame::Alive
                    })));
                }
                Stage::Ack => {
                    let Some((seq, used)) = self.part.take(SEQ_LEN, bytes) else { return Ok(None) };
                    let seq = Reader::new(seq).u64("ack seq")?;
                    bytes.advance(used);
                    self.stage = Stage::Tag;
                    return Ok(Some(Input::Frame(Frame::Ack(seq))));
                }
                Stage::Header => {
                    let Some((header, used)) = self.part.take(HEADER_LEN, bytes) else { return Ok(None) };
                    let (header, lens, crc) = read_header(header)?;
                    bytes.advance(used);
                    (self.header, self.header_crc, self.lens) = (header, crc, lens);
                    self.limits.check(self.limits.kept(lens), |bound| bound)?;
                    // Checksums that will not be compared are not computed; if one is needed after all, it is computed
                    // later.
                    let sums = if self.checks_data && self.data_crc { Sums::All } else { Sums::AllButData };
                    self.body.begin(lens.map(|len| len as usize), sums, self.limits.discards(lens[2]));
                    self.stage = Stage::Body;
                }
                Stage::Body => {
                    if !self.body.take(&self.header, bytes, placer) {
                        return Ok(None);
                    }
                    self.stage = Stage::Footer;
                }
                Stage::Footer => {
                    let len = self.footers.len();
                    let Some((footer, used)) = self.part.take(len, bytes) else { return Ok(None) };
                    let footer = self.footers.read(footer)?;
                    bytes.advance(used);
                    self.stage = Stage::Tag;
                    let Some(footer) = footer else {
                        match self.body.drop_aborted() {
                            Some(place) => return Ok(Some(Input::Aborted(self.header, place))),
                            None => continue,
                        }
                    };
                    self.check(footer)?;
                    return Ok(Some(Input::Message));
                }
            }
        }
    }

    #[inline]
    fn header(&self) -> &Header {
        &self.header
    }

    fn take_message(&mut self) -> Message {
        self.body.take_message(self.header)
    }
}
