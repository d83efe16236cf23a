use super::be;
use super::flags::CommandFlags;
use onego_wire::{DecodeError, Decoded, Reader};

/// Magics of compact and extended requests (nbd proto.md, 'Request message').
const COMPACT_MAGIC: u32 = 0x2560_9513;
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;

/// Size of a compact request header in bytes.
pub const COMPACT_REQUEST_LEN: usize = 28;
/// Size of an extended request header in bytes.
pub const EXTENDED_REQUEST_LEN: usize = 32;

/// The negotiated header style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeaderStyle {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests, structured replies; simple replies only without data and errors.
    Structured,
    /// Extended requests and replies.
    Extended,
}

impl HeaderStyle {
    /// Returns the size of a request header in bytes.
    pub fn request_len(self) -> usize {
        match self {
            Self::Simple | Self::Structured => COMPACT_REQUEST_LEN,
            Self::Extended => EXTENDED_REQUEST_LEN,
        }
    }
}

/// The type of a request (nbd proto.md, 'Request types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestType {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// End the session.
    Disconnect,
    /// Make acknowledged writes durable.
    Flush,
    /// Discard a range.
    Trim,
    /// Prefetch a range.
    Cache,
    /// Fill a range with zeros.
    WriteZeroes,
    /// Query the status of a range.
    BlockStatus,
    /// An unknown type.
    Unknown(u16),
}

impl RequestType {
    /// Returns the number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(number) => number,
        }
    }

    /// Converts a number.
    pub fn of(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            number => Self::Unknown(number),
        }
    }
}

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Command flags.
    pub flags: CommandFlags,
    /// Type of the request.
    pub command: RequestType,
    /// Cookie of the request.
    pub cookie: u64,
    /// Offset in bytes.
    pub offset: u64,
    /// Length of the range or the payload in bytes; not validated.
    pub length: u64,
}

impl RequestHeader {
    /// Decodes a header. After a wrong magic the start of the next request is unknown.
    #[inline]
    pub fn decode(r: &mut Reader<'_>, style: HeaderStyle) -> Decoded<Self> {
        let extended = style == HeaderStyle::Extended;
        let right = if extended { EXTENDED_MAGIC } else { COMPACT_MAGIC };
        let magic = be::u32(r, "a request's magic")?;
        if magic != right {
            return Err(DecodeError::Invalid { what: "a request's magic", value: u64::from(magic) });
        }
        Ok(Self {
            flags: CommandFlags(be::u16(r, "command flags")?),
            command: RequestType::of(be::u16(r, "command")?),
            cookie: be::u64(r, "cookie")?,
            offset: be::u64(r, "offset")?,
            length: match extended {
                true => be::u64(r, "length")?,
                false => u64::from(be::u32(r, "length")?),
            },
        })
    }

    /// Encodes the header. A compact header has the low 32 bits of the length.
    pub fn encode(&self, style: HeaderStyle) -> Vec<u8> {
        let extended = style == HeaderStyle::Extended;
        let mut out = Vec::with_capacity(EXTENDED_REQUEST_LEN);
        out.extend(if extended { EXTENDED_MAGIC } else { COMPACT_MAGIC }.to_be_bytes());
        out.extend(self.flags.0.to_be_bytes());
        out.extend(self.command.number().to_be_bytes());
        out.extend(self.cookie.to_be_bytes());
        out.extend(self.offset.to_be_bytes());
        match extended {
            true => out.extend(self.length.to_be_bytes()),
            false => out.extend((self.length as u32).to_be_bytes()),
        }
        out
    }

    /// Returns the length of the payload after the header. With extended headers a flag announces a payload (nbd
    /// proto.md, 'Request message'), but a write has one even without the flag: clients must set it, and QEMU (10.0)
    /// does not.
    #[inline]
    pub fn payload(&self, style: HeaderStyle) -> u64 {
        let has_payload = match style {
            _ if self.command == RequestType::Write => true,
            HeaderStyle::Simple | HeaderStyle::Structured => false,
            HeaderStyle::Extended => self.flags.contains(CommandFlags::PAYLOAD_LEN),
        };
        if has_payload { self.length } else { 0 }
    }
}

/// The payload of `BLOCK_STATUS`: the requested metadata contexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusPayload {
    /// Length of the range in bytes.
    pub length: u64,
    /// IDs of the contexts.
    pub contexts: Vec<u32>,
}

impl StatusPayload {
    /// Maximum size that a server accepts, in bytes: it has one context, and clients that name each context once send
    /// less.
    pub const MAX: usize = 64;

    /// Decodes a payload.
    pub fn decode(data: &[u8]) -> Decoded<Self> {
        be::bounded(data.len() as u64, Self::MAX, "payload of a status request")?;
        let mut r = Reader::new(data);
        let length = be::u64(&mut r, "length of a status request")?;
        let mut contexts = Vec::with_capacity(r.left() / 4);
        while !r.is_empty() {
            contexts.push(be::u32(&mut r, "metadata context")?);
        }
        Ok(Self { length, contexts })
    }

    /// Encodes the payload.
    pub fn encode(&self) -> Vec<u8> {
        let contexts = self.contexts.iter().flat_map(|id| id.to_be_bytes());
        self.length.to_be_bytes().into_iter().chain(contexts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_a_round_trip_in_each_style() {
        for number in 0..10 {
            assert_eq!(RequestType::of(number).number(), number);
        }
        for style in [HeaderStyle::Simple, HeaderStyle::Structured, HeaderStyle::Extended] {
            let flags = CommandFlags::FUA | CommandFlags::DF;
            let length = if style == HeaderStyle::Extended { 1 << 40 } else { 77 };
            let header =
                RequestHeader { flags, command: RequestType::Trim, cookie: 5, offset: 1 << 50, length };
            let bytes = header.encode(style);
            assert_eq!(bytes.len(), style.request_len());
            assert_eq!(RequestHeader::decode(&mut Reader::new(&bytes), style).unwrap(), header);
            for end in 0..bytes.len() {
                RequestHeader::decode(&mut Reader::new(&bytes[..end]), style).unwrap_err();
            }
        }
    }

    #[test]
    fn a_header_of_the_other_style_has_the_wrong_magic() {
        let header = RequestHeader {
            flags: CommandFlags(0),
            command: RequestType::Read,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        let bytes = header.encode(HeaderStyle::Extended);
        RequestHeader::decode(&mut Reader::new(&bytes), HeaderStyle::Simple).unwrap_err();
    }
}
