//! An exported image: its header, and the diffs from nothing to its first snapshot, from one snapshot to the next, and
//! to the current image.

use super::decoder::{DiffEvent, DiffParser};
use super::error::StreamError;
use super::input::StreamBytes;
use super::record::{MAX_NAME, string};
use onego_buf::Segment;
use onego_wire::text;

/// Largest key with its value in the header of an image, in bytes.
pub const MAX_METADATA: u64 = 1 << 20;

const BANNER: &str = "rbd image v2\n";

const DIFFS_BANNER: &str = "rbd image diffs v2\n";

mod tag {
    pub(super) const ORDER: u8 = b'O';
    pub(super) const FORMAT: u8 = b'F';
    pub(super) const FEATURES: u8 = b'T';
    pub(super) const STRIPE_UNIT: u8 = b'U';
    pub(super) const STRIPE_COUNT: u8 = b'C';
    pub(super) const METADATA: u8 = b'M';
    pub(super) const END: u8 = b'E';
}

/// Record of an exported image before its diffs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageRecord {
    /// Start of the image: the first record.
    Begin,
    /// Logarithm of the object size.
    Order(u64),
    /// The format of the image; Ceph does not write it.
    Format(u64),
    /// The features.
    Features(u64),
    /// Bytes of a stripe unit.
    StripeUnit(u64),
    /// Objects of a stripe.
    StripeCount(u64),
    /// Metadata of the image.
    Metadata {
        /// The key.
        key: String,
        /// The value.
        value: Vec<u8>,
    },
    /// End of the header, with the number of diffs that follow.
    Diffs(u64),
}

impl ImageRecord {
    /// Encodes the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut number = |tag: u8, number: u64| {
            out.push(tag);
            out.extend(8_u64.to_le_bytes());
            out.extend(number.to_le_bytes());
        };
        match self {
            Self::Begin => out.extend(BANNER.as_bytes()),
            Self::Order(order) => number(tag::ORDER, *order),
            Self::Format(format) => number(tag::FORMAT, *format),
            Self::Features(features) => number(tag::FEATURES, *features),
            Self::StripeUnit(unit) => number(tag::STRIPE_UNIT, *unit),
            Self::StripeCount(count) => number(tag::STRIPE_COUNT, *count),
            Self::Metadata { key, value } => {
                let key = text::to_bytes(key);
                out.push(tag::METADATA);
                out.extend((8 + key.len() as u64 + value.len() as u64).to_le_bytes());
                string(&key, out);
                string(value, out);
            }
            Self::Diffs(count) => {
                out.push(tag::END);
                out.extend(DIFFS_BANNER.as_bytes());
                out.extend(count.to_le_bytes());
            }
        }
    }
}

/// Decoded part of an exported image.
#[derive(Debug, Clone)]
pub enum ImageEvent {
    /// A record before the diffs.
    Record(ImageRecord),
    /// Part of the next diff; [`DiffRecord::End`](super::DiffRecord::End) is the last of each.
    Diff(DiffEvent),
}

#[derive(Debug, Default)]
enum ImageStreamState {
    #[default]
    Banner,
    Header,
    /// Within a record of an unknown kind.
    Skip {
        left: u64,
    },
    Diffs {
        left: u64,
        parser: DiffParser,
    },
}

/// Decodes an exported image. Buffers only undecoded bytes.
#[derive(Debug, Default)]
pub struct ImageDecoder {
    input: StreamBytes,
    state: ImageStreamState,
}

impl ImageDecoder {
    /// Creates a decoder at the first byte of an exported image.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream. Bytes past the last diff's end stay undecoded.
    pub fn push(&mut self, bytes: impl Into<Segment>) {
        self.input.push(bytes);
    }

    /// Returns the number of decoded bytes.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Returns whether the last diff is decoded.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, ImageStreamState::Diffs { left: 0, .. })
    }

    /// Returns the bytes of the last record's data that were not taken yet.
    pub fn data_left(&self) -> u64 {
        if let ImageStreamState::Diffs { parser, .. } = &self.state { parser.data_left() } else { 0 }
    }

    /// Marks the end of the stream. Fails unless the last diff has ended.
    pub fn finish(&self) -> Result<(), StreamError> {
        if self.is_ended() { Ok(()) } else { Err(StreamError::Truncated { position: self.position() }) }
    }

    /// Returns the next event. `None`: more bytes are needed, or the last diff has ended. The decoder is unusable after an error.
    pub fn next_event(&mut self) -> Result<Option<ImageEvent>, StreamError> {
        loop {
            match &mut self.state {
                ImageStreamState::Banner => {
                    if !banner(&mut self.input, 0, BANNER)? {
                        return Ok(None);
                    }
                    self.state = ImageStreamState::Header;
                    return Ok(Some(ImageEvent::Record(ImageRecord::Begin)));
                }
                ImageStreamState::Skip { left: 0 } => self.state = ImageStreamState::Header,
                ImageStreamState::Skip { left } => {
                    let skipped = self.input.take(*left).len() as u64;
                    if skipped == 0 {
                        return Ok(None);
                    }
                    *left -= skipped;
                }
                ImageStreamState::Header => match self.record()? {
                    None => return Ok(None),
                    Some(None) => {}
                    Some(Some(record)) => return Ok(Some(ImageEvent::Record(record))),
                },
                ImageStreamState::Diffs { left: 0, .. } => return Ok(None),
                ImageStreamState::Diffs { left, parser } => {
                    let event = parser.next(&mut self.input)?;
                    if parser.is_ended() {
                        (*left, *parser) = (*left - 1, DiffParser::default());
                    }
                    return Ok(event.map(ImageEvent::Diff));
                }
            }
        }
    }

    /// Returns the next record, once all of it is buffered; the inner `None` is a record of an unknown kind.
    fn record(&mut self) -> Result<Option<Option<ImageRecord>>, StreamError> {
        let input = &mut self.input;
        let Some(tag) = input.peek_byte() else { return Ok(None) };
        if tag == tag::END {
            let Some(count) = diffs(input)? else { return Ok(None) };
            self.state = ImageStreamState::Diffs { left: count, parser: DiffParser::default() };
            return Ok(Some(Some(ImageRecord::Diffs(count))));
        }
        let Some(length) = input.peek_number::<8>(1) else { return Ok(None) };
        let number: fn(u64) -> ImageRecord = match tag {
            tag::ORDER => ImageRecord::Order,
            tag::FORMAT => ImageRecord::Format,
            tag::FEATURES => ImageRecord::Features,
            tag::STRIPE_UNIT => ImageRecord::StripeUnit,
            tag::STRIPE_COUNT => ImageRecord::StripeCount,
            tag::METADATA => return Ok(metadata(input, length)?.map(Some)),
            _ => {
                input.advance(9);
                self.state = ImageStreamState::Skip { left: length };
                return Ok(Some(None));
            }
        };
        if length != 8 {
            return Err(StreamError::Length { position: input.position(), tag: char::from(tag), length });
        }
        let Some(value) = input.peek_number::<8>(9) else { return Ok(None) };
        input.advance(17);
        Ok(Some(Some(number(value))))
    }
}

/// Consumes a banner at offset `at`, and the bytes before it. Returns false if it is not buffered yet.
fn banner(input: &mut StreamBytes, at: usize, expected: &'static str) -> Result<bool, StreamError> {
    let Some(found) = input.peek(at + expected.len()) else { return Ok(false) };
    if &found[at..] != expected.as_bytes() {
        let found = String::from_utf8_lossy(&found[at..]).into_owned();
        return Err(StreamError::Banner { expected, found });
    }
    input.advance(found.len());
    Ok(true)
}

fn diffs(input: &mut StreamBytes) -> Result<Option<u64>, StreamError> {
    let Some(count) = input.peek_number::<8>(1 + DIFFS_BANNER.len()) else { return Ok(None) };
    if !banner(input, 1, DIFFS_BANNER)? {
        return Ok(None);
    }
    input.advance(8);
    Ok(Some(count))
}

fn metadata(input: &mut StreamBytes, length: u64) -> Result<Option<ImageRecord>, StreamError> {
    let position = input.position();
    let wrong = |length| StreamError::Length { position, tag: char::from(tag::METADATA), length };
    if !(8..=MAX_METADATA).contains(&length) {
        return Err(wrong(length));
    }
    let Some(record) = input.peek(9 + length as usize) else { return Ok(None) };
    let reader = &mut onego_wire::Reader::new(&record[9..]);
    let key = reader.blob("key").map_err(|_| wrong(length))?;
    let value = reader.blob("value").map_err(|_| wrong(length))?.to_vec();
    if !reader.is_empty() || key.len() as u64 > MAX_NAME {
        return Err(wrong(length));
    }
    let key = text::from_bytes(key).into_owned();
    input.advance(record.len());
    Ok(Some(ImageRecord::Metadata { key, value }))
}
