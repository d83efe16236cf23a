use super::be;
use super::request::HeaderStyle;
use onego_block::{BlockStatus, StatusExtent};
use onego_wire::{DecodeError, Decoded, Reader};

/// Magics of replies (nbd proto.md, 'Simple reply message', 'Structured reply chunk message', 'Extended reply chunk
/// message').
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_MAGIC: u32 = 0x6e8a_278c;

/// Size of a simple reply's header in bytes.
pub const SIMPLE_REPLY_LEN: usize = 16;
/// Size of a structured chunk's header in bytes.
pub const STRUCTURED_CHUNK_LEN: usize = 20;
/// Size of an extended chunk's header in bytes.
pub const EXTENDED_CHUNK_LEN: usize = 32;

const DONE: u16 = 1;
/// Extent states (nbd proto.md, '`base:allocation` metadata context').
const STATE_HOLE: u32 = 1;
const STATE_ZERO: u32 = 2;
/// Maximum extents per chunk (nbd proto.md, 'Structured reply types').
pub const EXTENTS_MAX: usize = 1 << 20;

/// A simple reply. Data may follow if there is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimpleReply {
    /// Error number; 0 for success.
    pub error: u32,
    /// Cookie of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Encodes the reply into `to`.
    #[inline]
    pub fn encode(self, to: &mut [u8; SIMPLE_REPLY_LEN]) {
        to[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
        to[4..8].copy_from_slice(&self.error.to_be_bytes());
        to[8..].copy_from_slice(&self.cookie.to_be_bytes());
    }
}

/// The type of a chunk (nbd proto.md, 'Structured reply types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkType {
    /// No payload.
    None,
    /// Data, after its offset.
    OffsetData,
    /// A hole: offset and length.
    OffsetHole,
    /// Block status with 32-bit lengths.
    BlockStatus,
    /// Block status with 64-bit lengths.
    BlockStatusExt,
    /// An error.
    Error,
    /// An error with an offset.
    ErrorOffset,
    /// An unknown type.
    Unknown(u16),
}

impl ChunkType {
    /// Returns the number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::OffsetData => 1,
            Self::OffsetHole => 2,
            Self::BlockStatus => 5,
            Self::BlockStatusExt => 6,
            Self::Error => 0x8001,
            Self::ErrorOffset => 0x8002,
            Self::Unknown(number) => number,
        }
    }

    /// Converts a number.
    pub fn of(number: u16) -> Self {
        match number {
            0 => Self::None,
            1 => Self::OffsetData,
            2 => Self::OffsetHole,
            5 => Self::BlockStatus,
            6 => Self::BlockStatusExt,
            0x8001 => Self::Error,
            0x8002 => Self::ErrorOffset,
            number => Self::Unknown(number),
        }
    }
}

/// The header of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Set on the last chunk of a reply.
    pub done: bool,
    /// Type of the chunk.
    pub kind: ChunkType,
    /// Cookie of the request.
    pub cookie: u64,
    /// Offset of the request; absent from structured chunks.
    pub offset: u64,
    /// Length of the payload in bytes.
    pub length: u64,
}

impl ChunkHeader {
    fn flags(&self) -> u16 {
        if self.done { DONE } else { 0 }
    }

    /// Encodes a structured header into `to`, with the low 32 bits of the length.
    #[inline]
    pub fn encode_structured(&self, to: &mut [u8; STRUCTURED_CHUNK_LEN]) {
        to[..4].copy_from_slice(&STRUCTURED_MAGIC.to_be_bytes());
        to[4..6].copy_from_slice(&self.flags().to_be_bytes());
        to[6..8].copy_from_slice(&self.kind.number().to_be_bytes());
        to[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        to[16..].copy_from_slice(&(self.length as u32).to_be_bytes());
    }

    /// Encodes an extended header into `to`.
    #[inline]
    pub fn encode_extended(&self, to: &mut [u8; EXTENDED_CHUNK_LEN]) {
        to[..4].copy_from_slice(&EXTENDED_MAGIC.to_be_bytes());
        to[4..6].copy_from_slice(&self.flags().to_be_bytes());
        to[6..8].copy_from_slice(&self.kind.number().to_be_bytes());
        to[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        to[16..24].copy_from_slice(&self.offset.to_be_bytes());
        to[24..].copy_from_slice(&self.length.to_be_bytes());
    }
}

/// The header of a reply of any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyHeader {
    /// A simple reply.
    Simple(SimpleReply),
    /// A chunk.
    Chunk(ChunkHeader),
}

impl ReplyHeader {
    /// Returns the length in bytes that all headers of a style have in common; it determines the
    /// [rest](Self::rest_len).
    pub fn first_len(style: HeaderStyle) -> usize {
        match style {
            HeaderStyle::Simple | HeaderStyle::Structured => SIMPLE_REPLY_LEN,
            HeaderStyle::Extended => EXTENDED_CHUNK_LEN,
        }
    }

    /// Returns the number of header bytes after the [first](Self::first_len) ones.
    pub fn rest_len(first: &[u8], style: HeaderStyle) -> usize {
        let is_chunk = style == HeaderStyle::Structured && first.starts_with(&STRUCTURED_MAGIC.to_be_bytes());
        if is_chunk { STRUCTURED_CHUNK_LEN - SIMPLE_REPLY_LEN } else { 0 }
    }

    /// Decodes a header; fails if it does not match the style.
    pub fn decode(r: &mut Reader<'_>, style: HeaderStyle) -> Decoded<Self> {
        let magic = be::u32(r, "a reply's magic")?;
        match magic {
            SIMPLE_MAGIC if style != HeaderStyle::Extended => {
                let error = be::u32(r, "error")?;
                Ok(Self::Simple(SimpleReply { error, cookie: be::u64(r, "cookie")? }))
            }
            STRUCTURED_MAGIC if style == HeaderStyle::Structured => Self::chunk(r, false),
            EXTENDED_MAGIC if style == HeaderStyle::Extended => Self::chunk(r, true),
            _ => Err(DecodeError::Invalid { what: "a reply's magic", value: u64::from(magic) }),
        }
    }

    fn chunk(r: &mut Reader<'_>, extended: bool) -> Decoded<Self> {
        let flags = be::u16(r, "reply flags")?;
        let kind = ChunkType::of(be::u16(r, "chunk type")?);
        let cookie = be::u64(r, "cookie")?;
        let (offset, length) = match extended {
            true => (be::u64(r, "offset")?, be::u64(r, "chunk length")?),
            false => (0, u64::from(be::u32(r, "chunk length")?)),
        };
        Ok(Self::Chunk(ChunkHeader { done: flags & DONE != 0, kind, cookie, offset, length }))
    }
}

/// The payload of an error chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorChunk<'a> {
    /// Error number.
    pub error: u32,
    /// Message for the user.
    pub message: &'a str,
}

impl<'a> ErrorChunk<'a> {
    /// Decodes a payload and ignores the offset that may follow.
    pub fn decode(data: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let error = be::u32(&mut r, "error")?;
        let length = usize::from(be::u16(&mut r, "message length")?);
        be::bounded(length as u64, be::STRING_MAX, "message length")?;
        let message = std::str::from_utf8(r.take(length, "message")?);
        Ok(Self { error, message: message.map_err(|_| DecodeError::NotUtf8 { what: "message" })? })
    }

    /// Encodes the payload; truncates a long message.
    pub fn encode(self) -> Vec<u8> {
        let mut end = self.message.len().min(be::STRING_MAX);
        while !self.message.is_char_boundary(end) {
            end -= 1;
        }
        let message = &self.message.as_bytes()[..end];
        [&self.error.to_be_bytes()[..], &(end as u16).to_be_bytes(), message].concat()
    }
}

/// The payload of a status chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusChunk {
    /// ID of the metadata context.
    pub context: u32,
    /// Extents, starting at the offset of the request.
    pub extents: Vec<StatusExtent>,
}

impl StatusChunk {
    /// Decodes a payload.
    pub fn decode(data: &[u8], extended: bool) -> Decoded<Self> {
        let mut r = Reader::new(data);
        let context = be::u32(&mut r, "metadata context")?;
        let size = if extended { 16 } else { 8 };
        let count = match extended {
            true => be::u32(&mut r, "number of extents")? as usize,
            false => r.left() / size,
        };
        be::bounded(count as u64, EXTENTS_MAX.min(r.left() / size), "number of extents")?;
        let mut number = || match extended {
            true => be::u64(&mut r, "extent"),
            false => Ok(u64::from(be::u32(&mut r, "extent")?)),
        };
        let mut extents = Vec::with_capacity(count);
        for _ in 0..count {
            let (length, state) = (number()?, number()?);
            let is_set = |bit| state & u64::from(bit) != 0;
            let status = BlockStatus { hole: is_set(STATE_HOLE), zero: is_set(STATE_ZERO) };
            extents.push(StatusExtent { length, status });
        }
        r.finish("extents")?;
        Ok(Self { context, extents })
    }

    /// Encodes the payload. Unless `extended`, lengths are truncated to 32 bits.
    pub fn encode(&self, extended: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + 16 * self.extents.len());
        out.extend(self.context.to_be_bytes());
        if extended {
            out.extend((self.extents.len() as u32).to_be_bytes());
        }
        for StatusExtent { length, status } in &self.extents {
            let hole = if status.hole { STATE_HOLE } else { 0 };
            let state = hole | if status.zero { STATE_ZERO } else { 0 };
            match extended {
                true => out.extend([*length, u64::from(state)].map(u64::to_be_bytes).as_flattened()),
                false => out.extend([*length as u32, state].map(u32::to_be_bytes).as_flattened()),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRING_MAX;
    use super::*;

    #[test]
    fn chunks_survive_a_round_trip_in_both_styles() {
        let mut chunk =
            ChunkHeader { done: true, kind: ChunkType::OffsetData, cookie: 9, offset: 0, length: 4104 };
        let mut structured = [0; STRUCTURED_CHUNK_LEN];
        chunk.encode_structured(&mut structured);
        let read = |bytes: &[u8], style| ReplyHeader::decode(&mut Reader::new(bytes), style);
        assert_eq!(read(&structured, HeaderStyle::Structured), Ok(ReplyHeader::Chunk(chunk)));
        read(&structured, HeaderStyle::Simple).unwrap_err();
        (chunk.offset, chunk.length) = (1 << 40, 1 << 33);
        let mut extended = [0; EXTENDED_CHUNK_LEN];
        chunk.encode_extended(&mut extended);
        assert_eq!(read(&extended, HeaderStyle::Extended), Ok(ReplyHeader::Chunk(chunk)));
        let mut simple = [0; SIMPLE_REPLY_LEN];
        SimpleReply { error: 5, cookie: 3 }.encode(&mut simple);
        read(&simple, HeaderStyle::Extended).unwrap_err();
        let len = |bytes: &[u8], style| {
            let first = ReplyHeader::first_len(style);
            first + ReplyHeader::rest_len(&bytes[..first], style)
        };
        assert_eq!(len(&structured, HeaderStyle::Structured), STRUCTURED_CHUNK_LEN);
        assert_eq!(len(&simple, HeaderStyle::Structured), SIMPLE_REPLY_LEN);
        assert_eq!(len(&simple, HeaderStyle::Simple), SIMPLE_REPLY_LEN);
        assert_eq!(len(&extended, HeaderStyle::Extended), EXTENDED_CHUNK_LEN);
        for number in [0, 1, 2, 3, 5, 6, 0x8001, 0x8002, 0x8003] {
            assert_eq!(ChunkType::of(number).number(), number);
        }
    }

    #[test]
    fn extents_survive_a_round_trip_in_both_sizes() {
        let extent = |length, status| StatusExtent { length, status };
        let extents = vec![extent(4096, BlockStatus::HOLE), extent(512, BlockStatus::DATA)];
        let mut status = StatusChunk { context: 1, extents };
        assert_eq!(StatusChunk::decode(&status.encode(false), false).unwrap(), status);
        status.extents.push(extent(1 << 40, BlockStatus::HOLE));
        let bytes = status.encode(true);
        assert_eq!(StatusChunk::decode(&bytes, true).unwrap(), status);
        for end in 0..bytes.len() {
            StatusChunk::decode(&bytes[..end], true).unwrap_err();
        }
    }

    #[test]
    fn a_long_message_is_truncated_between_characters() {
        let message = "é".repeat(STRING_MAX);
        let bytes = ErrorChunk { error: 5, message: &format!("a{message}") }.encode();
        let cut = ErrorChunk::decode(&bytes).unwrap();
        assert_eq!((cut.error, cut.message.len()), (5, STRING_MAX - 1));
    }
}
