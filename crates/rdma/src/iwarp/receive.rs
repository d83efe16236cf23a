//! Parser of the byte stream: an MPA frame, then FPDUs, however they are split.

use super::error::Error;
use super::forecast::{Forecast, Spot};
use super::handshake;
use super::header::{CONTROL_LEN, CRC_LEN, Control, HEADER_MAX, Opcode};
use super::inbound::Inbound;
use super::mpa::{FRAME_LEN, Frame, Kind};
use onego_buf::{Pool, Segment, crc32c};
use onego_wire::{Ahead, Landing, Part};

/// Bytes that are copied and summed at a time, so that the sum finds them in the first-level cache.
const COPY_CHUNK: usize = 16 << 10;

const LANDING_MAX: usize = 1 << 20;

/// Maximum length of a contiguous part. The trailer of a segment is shorter.
const PART_MAX: usize = HEADER_MAX - CONTROL_LEN;
const _: () = assert!(PART_MAX >= FRAME_LEN);

#[derive(Debug)]
pub(super) enum Input {
    Frame(Frame, Vec<u8>),
    Segment(Control),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Frame(Kind),
    PrivateData(Frame, usize),
    Control,
    Header,
    Payload(usize),
    Trailer,
}

#[derive(Debug)]
pub(super) struct Receiver {
    stage: Stage,
    part: Part<PART_MAX>,
    private_data: Vec<u8>,
    control: Option<Control>,
    header: [u8; HEADER_MAX],
    crc: Option<u32>,
    ahead: Ahead,
    pub(super) forecast: Forecast,
}

impl Receiver {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            stage: Stage::Frame(kind),
            part: Part::default(),
            private_data: Vec::new(),
            control: None,
            header: [0; HEADER_MAX],
            crc: None,
            ahead: Ahead::default(),
            forecast: Forecast::default(),
        }
    }

    pub(super) fn segments(&mut self, crc: bool) {
        self.crc = crc.then_some(u32::MAX);
    }

    /// Returns the header of the current or last segment, unless it was invalid.
    pub(super) fn header(&self) -> Option<(Control, &[u8])> {
        let control = self.control?;
        Some((control, &self.header[..control.header_len()]))
    }

    /// Returns the header buffer, of which only the current header's length is meaningful.
    pub(super) fn whole_header(&self) -> &[u8; HEADER_MAX] {
        &self.header
    }

    pub(super) fn landing(&mut self, inbound: &mut Inbound, pool: &Pool) -> Landing {
        if !matches!(self.stage, Stage::Payload(_)) {
            return self.ahead.landing(None, 0);
        }
        let Some(place) = inbound.landing() else { return self.ahead.landing(None, inbound.rest()) };
        let ahead = self.forecast.look(LANDING_MAX, |spot, whole| inbound.foresee(spot, whole));
        let mut landing = self.ahead.landing(Some(place), 0);
        landing.ahead = ahead.unwrap_or(landing.ahead);
        landing.further = self.forecast.places(pool, |spot| inbound.take(spot));
        landing
    }

    #[inline]
    fn sum(&mut self, bytes: &[u8]) {
        if let Some(crc) = &mut self.crc {
            *crc = crc32c(*crc, bytes);
        }
    }

    #[inline]
    pub(super) fn next(
        &mut self,
        bytes: &mut Segment,
        inbound: &mut Inbound,
    ) -> Result<Option<Input>, Error> {
        loop {
            let whole = match self.stage {
                Stage::Frame(kind) => self.frame(kind, bytes)?,
                Stage::PrivateData(frame, len) => {
                    if let Some(input) = self.private_data(frame, len, bytes) {
                        return Ok(Some(input));
                    }
                    false
                }
                Stage::Control => self.control(bytes)?,
                Stage::Header => self.rest_of_header(bytes, inbound)?,
                Stage::Payload(left) => self.payload(left, bytes, inbound)?,
                Stage::Trailer => match self.trailer(bytes)? {
                    Some(control) => return Ok(Some(Input::Segment(control))),
                    None => false,
                },
            };
            if !whole {
                return Ok(None);
            }
        }
    }

    fn frame(&mut self, kind: Kind, bytes: &mut Segment) -> Result<bool, Error> {
        let Some((frame, used)) = self.part.take(FRAME_LEN, bytes) else { return Ok(false) };
        let (frame, len) = handshake::parse(kind, frame)?;
        bytes.advance(used);
        self.stage = Stage::PrivateData(frame, len);
        Ok(true)
    }

    fn private_data(&mut self, frame: Frame, len: usize, bytes: &mut Segment) -> Option<Input> {
        let more = bytes.len().min(len - self.private_data.len());
        self.private_data.extend_from_slice(&bytes[..more]);
        bytes.advance(more);
        if self.private_data.len() < len {
            return None;
        }
        self.stage = Stage::Control;
        Some(Input::Frame(frame, std::mem::take(&mut self.private_data)))
    }

    #[inline]
    fn control(&mut self, bytes: &mut Segment) -> Result<bool, Error> {
        let Some((part, used)) = self.part.take(CONTROL_LEN, bytes) else { return Ok(false) };
        self.header[..CONTROL_LEN].copy_from_slice(part);
        bytes.advance(used);
        self.control = None;
        let first = self.header.first_chunk().expect("a header is longer than that");
        self.control = Some(Control::parse(*first)?);
        self.stage = Stage::Header;
        Ok(true)
    }

    #[inline]
    fn rest_of_header(&mut self, bytes: &mut Segment, inbound: &mut Inbound) -> Result<bool, Error> {
        let Some(control) = self.control else { return Ok(false) };
        let len = control.header_len();
        let Some((part, used)) = self.part.take(len - CONTROL_LEN, bytes) else { return Ok(false) };
        self.header[CONTROL_LEN..len].copy_from_slice(part);
        bytes.advance(used);
        if let Some(crc) = &mut self.crc {
            *crc = crc32c(u32::MAX, &self.header[..len]);
        }
        inbound.begin(control, &self.header)?;
        self.forecast.begun(inbound.spot(), control.last);
        // The end of a write is usually followed by a message.
        if !(control.last && control.opcode == Opcode::Write) {
            self.forecast.foresee(|spot, whole| inbound.foresee(spot, whole));
        }
        self.ahead.message(control.payload_len());
        self.stage = Stage::Payload(control.payload_len());
        Ok(true)
    }

    #[inline]
    fn payload(&mut self, left: usize, bytes: &mut Segment, inbound: &mut Inbound) -> Result<bool, Error> {
        let taken = left.min(bytes.len());
        for chunk in bytes[..taken].chunks(COPY_CHUNK) {
            self.sum(chunk);
            inbound.fill(chunk)?;
        }
        bytes.advance(taken);
        let whole = taken == left;
        self.stage = if whole { Stage::Trailer } else { Stage::Payload(left - taken) };
        Ok(whole)
    }

    #[inline]
    fn trailer(&mut self, bytes: &mut Segment) -> Result<Option<Control>, Error> {
        let Some(control) = self.control else { return Ok(None) };
        let Some((part, used)) = self.part.take(control.trailer_len(), bytes) else { return Ok(None) };
        let (padding, sum) = part.split_at(part.len() - CRC_LEN);
        // Without checksums the field is ignored.
        if let Some(crc) = self.crc
            && sum != wire_crc(crc32c(crc, padding))
        {
            return Err(Error::Corrupt);
        }
        bytes.advance(used);
        self.stage = Stage::Control;
        Ok(Some(control))
    }

    pub(super) fn landed(&mut self, bytes: &[u8]) {
        if let Stage::Payload(left) = &mut self.stage {
            *left -= bytes.len();
        }
        self.sum(bytes);
    }

    /// Records payload bytes that were received into a predicted spot. Returns `false` if they do not belong there.
    pub(super) fn came(&mut self, spot: Spot, filled: usize, inbound: &mut Inbound) -> bool {
        if self.stage != Stage::Payload(spot.len) || inbound.spot() != Some(spot) {
            return false;
        }
        self.landed(inbound.bytes(spot, filled));
        inbound.skip(filled);
        true
    }
}

/// Returns a checksum as it is sent: inverted at the end, lowest byte first, as in iSCSI (RFC 5044, section 4.4).
pub(super) fn wire_crc(crc: u32) -> [u8; CRC_LEN] {
    (!crc).to_le_bytes()
}
