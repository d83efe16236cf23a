//! Wire format of frames: a tag and up to four segments.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Frame format" and "msgr2.1-crc mode"; `src/msg/async/frames_v2.{h,cc}`.
//!
//! ```text
//! preamble 32 | segment 1, crc 4 | segment 2 | segment 3 | segment 4 | epilogue 13
//! ```
//! Empty segments take no bytes, and neither does the crc of an empty first segment. A frame of one segment has no
//! epilogue.

use super::header::HEADER_LEN;
use crate::error::Error;
use crate::message::{Header, Message, Sums};
use crate::tag::Tag;
use onego_buf::crc32c;

pub(super) const MAX_SEGMENTS: usize = 4;
/// Size of a preamble in crc mode, in bytes.
pub(super) const PREAMBLE_LEN: usize = 32;
/// Size of the crc after a non-empty first segment, in bytes.
pub(super) const CRC_LEN: usize = 4;
/// Size of an epilogue in crc mode, in bytes.
pub(super) const EPILOGUE_LEN: usize = 13;

/// Size of a message's frame before its front, in bytes.
pub(super) const HEAD_LEN: usize = PREAMBLE_LEN + HEADER_LEN + CRC_LEN;

const PREAMBLE_CRC_AT: usize = PREAMBLE_LEN - CRC_LEN;
/// Initial value of segment checksums; the preamble's starts with 0.
pub(super) const SEGMENT_SEED: u32 = u32::MAX;
/// Alignments that a sender requests for the four segments: pointer alignment and, for data, page alignment. Receivers
/// may ignore them, but every peer sends these.
const ALIGNMENTS: [u16; MAX_SEGMENTS] = [8, 8, 8, 4096];

/// Code words in the low nibble of the late status, four bits apart.
const LATE_ABORTED: u8 = 0x1;
pub(super) const LATE_COMPLETE: u8 = 0xe;
const LATE_MASK: u8 = 0xf;

/// Offset of the preamble's flags, and the only known flag (`FRAME_EARLY_DATA_COMPRESSED`): the segments are
/// compressed. Unknown flags are ignored.
const FLAGS_AT: usize = 26;
const FLAG_COMPRESSED: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Preamble {
    pub(super) tag: Tag,
    /// Lengths of the segments, 0 for unused ones.
    pub(super) lens: [u32; MAX_SEGMENTS],
    /// Number of segments. The last one is empty only if it is the only one.
    pub(super) segments: u8,
    /// Whether the segments are compressed. The lengths are the compressed ones.
    pub(super) compressed: bool,
}

impl Preamble {
    /// Creates the preamble of a frame with these segment lengths. Trailing empty segments are omitted.
    pub(super) fn new(tag: Tag, lens: [u32; MAX_SEGMENTS]) -> Self {
        let segments = lens.iter().rposition(|&len| len > 0).map_or(1, |last| last + 1);
        Self { tag, lens, segments: segments as u8, compressed: false }
    }

    pub(super) fn of_compressed(tag: Tag, lens: [u32; MAX_SEGMENTS]) -> Self {
        Self { compressed: true, ..Self::new(tag, lens) }
    }

    pub(super) fn to_wire(self) -> [u8; PREAMBLE_LEN] {
        let mut bytes = [0; PREAMBLE_LEN];
        bytes[0] = self.tag as u8;
        bytes[1] = self.segments;
        let segments = self.lens.iter().zip(ALIGNMENTS).take(self.segments.into());
        for (i, (len, alignment)) in segments.enumerate() {
            let at = 2 + 6 * i;
            bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
            bytes[at + 4..at + 6].copy_from_slice(&alignment.to_le_bytes());
        }
        if self.compressed {
            bytes[FLAGS_AT] = FLAG_COMPRESSED;
        }
        let crc = crc32c(0, &bytes[..PREAMBLE_CRC_AT]);
        bytes[PREAMBLE_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn from_wire(bytes: &[u8; PREAMBLE_LEN]) -> Result<Self, Error> {
        if crc32c(0, &bytes[..PREAMBLE_CRC_AT]) != le32(bytes, PREAMBLE_CRC_AT) {
            return Err(Error::Corrupt("a frame's preamble"));
        }
        let tag = Tag::from_wire(bytes[0]).ok_or(Error::UnknownTag(bytes[0]))?;
        let segments = bytes[1];
        if !(1..=MAX_SEGMENTS as u8).contains(&segments) {
            return Err(Error::BadFrame("no segments or more than four"));
        }
        let mut lens = [0; MAX_SEGMENTS];
        for (i, len) in lens.iter_mut().enumerate().take(segments.into()) {
            *len = le32(bytes, 2 + 6 * i);
        }
        if segments > 1 && lens[segments as usize - 1] == 0 {
            return Err(Error::BadFrame("an empty last segment"));
        }
        Ok(Self { tag, lens, segments, compressed: bytes[FLAGS_AT] & FLAG_COMPRESSED != 0 })
    }
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A preamble and its bytes. Successive messages mostly have the same lengths and thus the same preamble, whose bytes
/// and checksum need not be computed again.
#[derive(Debug)]
pub(super) struct CachedPreamble {
    preamble: Preamble,
    bytes: [u8; PREAMBLE_LEN],
}

impl CachedPreamble {
    pub(super) fn new(preamble: Preamble) -> Self {
        Self { preamble, bytes: preamble.to_wire() }
    }

    pub(super) fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    #[inline]
    pub(super) fn bytes_of(&mut self, preamble: Preamble) -> &[u8; PREAMBLE_LEN] {
        if self.preamble != preamble {
            *self = Self::new(preamble);
        }
        &self.bytes
    }

    /// Updates the preamble from `bytes`, calling `open` only if they differ from the last ones.
    #[inline]
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        open: impl FnOnce(&[u8]) -> Result<Preamble, Error>,
    ) -> Result<(), Error> {
        if self.bytes != *bytes {
            self.preamble = open(bytes)?;
            self.bytes.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// Returns whether a late status says that the sender aborted the frame.
pub(super) fn is_aborted(status: u8) -> Result<bool, Error> {
    match status & LATE_MASK {
        LATE_COMPLETE => Ok(false),
        LATE_ABORTED => Ok(true),
        _ => Err(Error::Corrupt("a frame's late status")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epilogue {
    /// The sender aborted the frame: its segments are to be discarded, and the checksums have no meaning.
    pub(super) aborted: bool,
    /// Checksums of the second to fourth segment; 0 for unused trailing segments.
    pub(super) crcs: [u32; MAX_SEGMENTS - 1],
}

/// Encoding and decoding of frames in crc mode, in which every connection begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framing {
    data_crc: bool,
}

impl Framing {
    pub(super) const fn new(data_crc: bool) -> Self {
        Self { data_crc }
    }

    /// Continues the checksum of a second to fourth segment.
    #[inline]
    pub(super) fn sum(self, crc: u32, bytes: &[u8]) -> u32 {
        if self.data_crc { crc32c(crc, bytes) } else { crc }
    }

    /// Returns which checksums of the second to fourth segment a receiver computes.
    pub(super) fn sums(self) -> Sums {
        if self.data_crc { Sums::All } else { Sums::None }
    }

    /// Compares the computed checksums of the second to fourth segment with the received ones. `Err` holds the index of
    /// the wrong one.
    pub(super) fn check(
        self,
        preamble: &Preamble,
        found: [u32; MAX_SEGMENTS - 1],
        sent: [u32; MAX_SEGMENTS - 1],
    ) -> Result<(), usize> {
        let used = preamble.segments as usize - 1;
        match (0..used).find(|&i| found[i] != sent[i]) {
            Some(i) if self.data_crc => Err(i),
            _ => Ok(()),
        }
    }

    pub(super) fn preamble_len(self) -> usize {
        PREAMBLE_LEN
    }

    pub(super) fn open_preamble(self, bytes: &[u8]) -> Result<Preamble, Error> {
        Preamble::from_wire(bytes.try_into().map_err(|_| Error::BadFrame("a short preamble"))?)
    }

    /// Returns the size of the first segment with its crc.
    pub(super) fn first_len(self, preamble: &Preamble) -> usize {
        match preamble.lens[0] as usize {
            0 => 0,
            len => len + CRC_LEN,
        }
    }

    /// Checks the first segment in `bytes`, of length [`first_len`](Self::first_len), and returns its payload.
    pub(super) fn open_first<'a>(self, bytes: &'a [u8], what: &'static str) -> Result<&'a [u8], Error> {
        let Some((payload, crc)) = bytes.split_last_chunk::<CRC_LEN>() else { return Ok(&[]) };
        if crc32c(SEGMENT_SEED, payload) == u32::from_le_bytes(*crc) {
            Ok(payload)
        } else {
            Err(Error::Corrupt(what))
        }
    }

    pub(super) fn epilogue_len(self, preamble: &Preamble) -> usize {
        if preamble.segments > 1 { EPILOGUE_LEN } else { 0 }
    }

    pub(super) fn open_epilogue(self, bytes: &[u8]) -> Result<Epilogue, Error> {
        if bytes.len() != EPILOGUE_LEN {
            return Err(Error::BadFrame("a short epilogue"));
        }
        let aborted = is_aborted(bytes[0])?;
        Ok(Epilogue { aborted, crcs: [le32(bytes, 1), le32(bytes, 5), le32(bytes, 9)] })
    }

    pub(super) fn seal_control(self, preamble: &[u8; PREAMBLE_LEN], first: &[u8], to: &mut Vec<u8>) {
        to.extend_from_slice(preamble);
        if !first.is_empty() {
            to.extend_from_slice(first);
            to.extend_from_slice(&crc32c(SEGMENT_SEED, first).to_le_bytes());
        }
    }

    /// Writes the preamble and the first segment of a message to `to`.
    #[inline]
    pub(super) fn seal_header(self, preamble: &[u8; PREAMBLE_LEN], header: &Header, to: &mut [u8; HEAD_LEN]) {
        let (head, rest) = to.split_at_mut(PREAMBLE_LEN);
        head.copy_from_slice(preamble);
        let (first, crc) = rest.split_at_mut(HEADER_LEN);
        if let Some(first) = first.first_chunk_mut() {
            header.put(first);
        }
        crc.copy_from_slice(&crc32c(SEGMENT_SEED, first).to_le_bytes());
    }

    /// Writes the epilogue of a complete frame with more than one segment to `to`. `crcs` are those of the second to
    /// fourth segment, even if empty.
    #[inline]
    pub(super) fn seal_epilogue(
        self,
        preamble: &Preamble,
        crcs: [u32; MAX_SEGMENTS - 1],
        to: &mut [u8; EPILOGUE_LEN],
    ) {
        let used = |i: usize| if i + 1 < preamble.segments as usize { crcs[i] } else { 0 };
        let crcs = u128::from(used(0)) | u128::from(used(1)) << 32 | u128::from(used(2)) << 64;
        let bytes = u128::from(LATE_COMPLETE) | crcs << 8;
        // Two overlapping words cover it.
        to[..8].copy_from_slice(&(bytes as u64).to_le_bytes());
        to[5..].copy_from_slice(&((bytes >> 40) as u64).to_le_bytes());
    }
}

impl Message {
    /// Returns the size of the message's frame on the wire, in bytes.
    pub fn frame_len(&self) -> usize {
        let epilogue = if self.body_len() > 0 { EPILOGUE_LEN } else { 0 };
        HEAD_LEN + self.body_len() + epilogue
    }
}

/// Creates a control frame, for tests that forge one.
#[cfg(test)]
pub(crate) fn control_frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let preamble = Preamble::new(tag, [payload.len() as u32, 0, 0, 0]).to_wire();
    Framing::new(true).seal_control(&preamble, payload, &mut frame);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing { data_crc: true };

    #[test]
    fn trailing_empty_segments_are_left_out() {
        for (lens, segments) in
            [([0, 0, 0, 0], 1), ([20, 0, 0, 0], 1), ([0, 70, 0, 0], 2), ([20, 70, 0, 350], 4)]
        {
            let preamble = Preamble::new(Tag::Message, lens);
            assert_eq!(preamble.segments, segments);
            assert_eq!(FRAMING.open_preamble(&preamble.to_wire()), Ok(preamble));
            assert_eq!(FRAMING.epilogue_len(&preamble), if segments > 1 { 13 } else { 0 });
            assert_eq!(FRAMING.first_len(&preamble), if lens[0] > 0 { 24 } else { 0 });
        }
    }

    #[test]
    fn the_preamble_of_compressed_segments_is_flagged() {
        let plain = Preamble::new(Tag::Message, [41, 5, 0, 0]);
        let compressed = Preamble::of_compressed(Tag::Message, [41, 5, 0, 0]);
        assert_eq!(FRAMING.open_preamble(&compressed.to_wire()), Ok(compressed));
        assert_ne!(plain, compressed);
        assert_eq!((plain.to_wire()[26], compressed.to_wire()[26]), (0, 1));
    }

    #[test]
    fn a_repeated_preamble_is_reused_and_any_other_is_checked() {
        let preambles = [[41, 5, 0, 0], [41, 5, 0, 0], [41, 5, 0, 9], [41, 5, 0, 0]]
            .map(|lens| Preamble::new(Tag::Message, lens));
        let (mut sent, mut received) = (CachedPreamble::new(preambles[2]), CachedPreamble::new(preambles[2]));
        let mut opened = 0;
        for preamble in preambles {
            assert_eq!(*sent.bytes_of(preamble), preamble.to_wire());
            let open = |bytes: &[u8]| {
                opened += 1;
                FRAMING.open_preamble(bytes)
            };
            assert_eq!(received.take(&preamble.to_wire(), open), Ok(()));
            assert_eq!(*received.preamble(), preamble);
        }
        assert_eq!(opened, 3);
        let mut damaged = preambles[0].to_wire();
        damaged[2] ^= 1;
        let open = |bytes: &[u8]| FRAMING.open_preamble(bytes);
        assert_eq!(received.take(&damaged, open), Err(Error::Corrupt("a frame's preamble")));
    }

    /// Returns `bytes` with a correct crc at the end of its preamble.
    fn resealed(mut bytes: [u8; PREAMBLE_LEN]) -> [u8; PREAMBLE_LEN] {
        let crc = crc32c(0, &bytes[..PREAMBLE_CRC_AT]);
        bytes[PREAMBLE_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn an_invalid_preamble_is_refused() {
        let good = Preamble::new(Tag::Message, [41, 5, 0, 0]).to_wire();
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            FRAMING.open_preamble(&resealed(bytes))
        };
        assert_eq!(with(0, 99), Err(Error::UnknownTag(99)));
        assert_eq!(with(1, 0), Err(Error::BadFrame("no segments or more than four")));
        assert_eq!(with(1, 5), Err(Error::BadFrame("no segments or more than four")));
        assert_eq!(with(1, 3), Err(Error::BadFrame("an empty last segment")));
    }

    #[test]
    fn every_flipped_bit_of_a_preamble_is_detected() {
        let good = Preamble::new(Tag::Ack, [8, 0, 0, 0]).to_wire();
        for bit in 0..PREAMBLE_LEN * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FRAMING.open_preamble(&bytes), Err(Error::Corrupt("a frame's preamble")), "bit {bit}");
        }
    }

    #[test]
    fn the_late_status_tolerates_a_flipped_bit() {
        let preamble = Preamble::new(Tag::Message, [41, 5, 0, 0]);
        let mut complete = [0; EPILOGUE_LEN];
        FRAMING.seal_epilogue(&preamble, [7, u32::MAX, u32::MAX], &mut complete);
        assert_eq!(FRAMING.open_epilogue(&complete), Ok(Epilogue { aborted: false, crcs: [7, 0, 0] }));
        let mut bytes = complete;
        bytes[0] = 0xe0 | LATE_ABORTED;
        assert!(FRAMING.open_epilogue(&bytes).unwrap().aborted);
        for bit in 0..4 {
            for word in [LATE_ABORTED, LATE_COMPLETE] {
                bytes[0] = word ^ 1 << bit;
                assert_eq!(FRAMING.open_epilogue(&bytes), Err(Error::Corrupt("a frame's late status")));
            }
        }
    }
}
