//! Compression of outgoing frames.
//!
//! Source: ceph `src/msg/async/frames_v2.cc` (`asm_compress`), `src/msg/async/compression_onwire.cc`.
//!
//! Either all segments of a frame are compressed, each by itself, or none. Checksums and encryption apply to the
//! compressed segments.

use super::header::HEADER_LEN;
use crate::compression::Method;
use crate::compression::codec::Encoder;
use crate::send::fronts::Fronts;
use crate::send::queue::{Front, Queued};
use onego_buf::{Pool, Segment};
use std::borrow::Cow;

/// Capacity kept for copies of fragmented payloads, in bytes.
const KEEP: usize = 256 << 10;

/// Maximum payload that is compressed, in bytes. Nothing else is sent meanwhile, and receivers limit how much they
/// decompress at a time.
const MAX: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Packer {
    encoder: Encoder,
    /// Minimum size of a frame's segments for compression, in bytes.
    min_size: usize,
    pool: Pool,
    /// Copy of a fragmented payload.
    whole: Vec<u8>,
}

/// Compressed message: the first segment of its frame, then front, middle and data.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) first: Segment,
    pub(super) parts: [Segment; 3],
}

impl Packer {
    /// Returns `None` if out of memory.
    pub(super) fn new(method: Method, min_size: u32, pool: Pool) -> Option<Self> {
        let (encoder, min_size) = (Encoder::new(method)?, min_size as usize);
        Some(Self { encoder, min_size, pool, whole: Vec::new() })
    }

    /// Compresses a control frame's payload, if that makes it smaller.
    pub(super) fn control(&mut self, payload: &[u8]) -> Option<Segment> {
        if payload.is_empty() || payload.len() < self.min_size {
            return None;
        }
        self.segment(payload).filter(|packed| packed.len() < payload.len())
    }

    /// Compresses a message, if it is large enough and becomes smaller. Otherwise the message stays intact.
    pub(super) fn message(&mut self, message: &mut Queued, fronts: &mut Fronts) -> Option<Packed> {
        let len = HEADER_LEN + message.body_len();
        if len < self.min_size || message.data.len() > MAX {
            return None;
        }
        let front = match &message.front {
            Front::Encoded(len) => Cow::Borrowed(fronts.take(*len)),
            Front::Own(front) => Cow::Borrowed(&**front),
        };
        let packed = self.parts(message, &front).filter(|packed| packed.len() < len);
        if packed.is_none() && matches!(message.front, Front::Encoded(_)) {
            // An encoded front can be taken from its queue only once.
            message.front = Front::Own(front.into_owned().into());
        }
        packed
    }

    fn parts(&mut self, message: &Queued, front: &[u8]) -> Option<Packed> {
        let mut header = [0; HEADER_LEN];
        message.header.put(&mut header);
        let first = self.segment(&header)?;
        let front = self.segment(front)?;
        let middle = self.segment(message.middle.as_deref().unwrap_or_default())?;
        let mut pieces = message.data.segments();
        let data = match (pieces.next(), pieces.next()) {
            (None, _) => self.segment(&[])?,
            (Some(piece), None) => self.segment(piece)?,
            _ => {
                let mut whole = std::mem::take(&mut self.whole);
                message.data.segments().for_each(|piece| whole.extend_from_slice(piece));
                let data = self.segment(&whole);
                whole.clear();
                whole.shrink_to(KEEP);
                self.whole = whole;
                data?
            }
        };
        Some(Packed { first, parts: [front, middle, data] })
    }

    /// Compresses a segment. An empty one stays empty.
    fn segment(&mut self, bytes: &[u8]) -> Option<Segment> {
        if bytes.is_empty() {
            return Some(Segment::from_static(b""));
        }
        let mut to = self.pool.get(self.encoder.bound(bytes.len()));
        let len = self.encoder.encode(bytes, &mut to)?;
        to.truncate(len);
        Some(to.freeze())
    }
}

impl Packed {
    fn len(&self) -> usize {
        self.first.len() + self.parts.iter().map(|part| part.len()).sum::<usize>()
    }
}
