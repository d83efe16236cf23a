use super::be;
use super::flags::CommandFlags;
use onego_wire::{DecodeError, Decoded, Reader};

/// Before each request (nbd proto.md, 'Request message'): compact, and extended.
const COMPACT_MAGIC: u32 = 0x2560_9513;
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;

/// Bytes of the header of a compact request.
pub const COMPACT_REQUEST_LEN: usize = 28;
/// Bytes of the header of an extended request.
pub const EXTENDED_REQUEST_LEN: usize = 32;

/// Which headers the two sides have agreed to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HeaderStyle {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests; replies are structured, simple ones only where there is neither data nor an error.
    Structured,
    /// Extended requests and replies.
    Extended,
}

impl HeaderStyle {
    /// Bytes of the header of a request.
    pub fn request_len(self) -> usize {
        match self {
            Self::Simple | Self::Structured => COMPACT_REQUEST_LEN,
            Self::Extended => EXTENDED_REQUEST_LEN,
        }
    }
}

/// What a request asks for (nbd proto.md, 'Request types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestType {
    /// Gives bytes.
    Read,
    /// Takes bytes.
    Write,
    /// Ends the session.
    Disconnect,
    /// Makes what was written durable.
    Flush,
    /// The bytes are not needed any more.
    Trim,
    /// The bytes are needed soon.
    Cache,
    /// The bytes are zeros from now on.
    WriteZeroes,
    /// Gives what is known of the bytes.
    BlockStatus,
    /// Any other.
    Unknown(u16),
}

impl RequestType {
    /// The number on the wire.
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

    /// The command of a number.
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
    /// How.
    pub flags: CommandFlags,
    /// What.
    pub command: RequestType,
    /// The client's name for the request.
    pub cookie: u64,
    /// First byte of the export.
    pub offset: u64,
    /// Bytes of the export, or of the payload: nothing bounds them yet.
    pub length: u64,
}

impl RequestHeader {
    /// Reads it. A wrong magic is an error: nobody knows where the next request begins.
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

    /// The bytes. A compact header has the low 32 bits of the length.
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

    /// Bytes of payload behind the header. With extended headers a flag says that there is one (nbd proto.md, 'Request
    /// message'). A write has one also without it: clients are to set it, and QEMU's (10.0) does not.
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

/// The payload of a `BLOCK_STATUS`: which metadata contexts are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusPayload {
    /// Bytes of the export.
    pub length: u64,
    /// The contexts.
    pub contexts: Vec<u32>,
}

impl StatusPayload {
    /// Most bytes that a server looks at: it has one context, and a client that names each context once sends less.
    pub const MAX: usize = 64;

    /// Reads it.
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

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let contexts = self.contexts.iter().flat_map(|id| id.to_be_bytes());
        self.length.to_be_bytes().into_iter().chain(contexts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_in_each_style() {
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
