//! The greeting, and the headers of options and option replies.

use super::be;
use super::flags::{ClientFlags, HandshakeFlags, TransmissionFlags};
use onego_wire::{DecodeError, Decoded, Reader};

/// "NBDMAGIC" and "IHAVEOPT" (nbd proto.md, 'Newstyle negotiation').
const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Replaces the latter in the oldstyle handshake (nbd proto.md, 'Oldstyle negotiation').
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Magic of option replies (nbd proto.md, 'Fixed newstyle negotiation').
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Size of a server's greeting in bytes.
pub const GREETING_LEN: usize = 18;
/// Size of the client's flags in bytes.
pub const CLIENT_FLAGS_LEN: usize = 4;
/// Size of an option's header in bytes.
pub const OPTION_HEADER_LEN: usize = 16;
/// Size of an option reply's header in bytes.
pub const OPTION_REPLY_LEN: usize = 20;

/// A server's greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting(pub HandshakeFlags);

impl Greeting {
    /// Encodes the greeting.
    pub fn encode(self) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&self.0.0.to_be_bytes());
        bytes
    }

    /// Returns whether `bytes` begin an oldstyle handshake, which is longer than a greeting (nbd proto.md, 'Oldstyle
    /// negotiation').
    pub fn is_oldstyle(bytes: &[u8]) -> bool {
        bytes
            .strip_prefix(&NBD_MAGIC.to_be_bytes())
            .is_some_and(|rest| rest.starts_with(&OLDSTYLE_MAGIC.to_be_bytes()))
    }

    /// Decodes a greeting.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        be::magic(r, NBD_MAGIC, "the server's first magic")?;
        be::magic(r, OPTION_MAGIC, "the server's second magic")?;
        Ok(Self(HandshakeFlags(be::u16(r, "handshake flags")?)))
    }
}

/// Decodes a client's flags; unknown ones are an error (nbd proto.md, 'Client flags').
pub fn client_flags(r: &mut Reader<'_>) -> Decoded<ClientFlags> {
    let flags = ClientFlags(be::u32(r, "client flags")?);
    match flags.exceeds(ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES) {
        true => Err(DecodeError::Invalid { what: "client flags", value: u64::from(flags.0) }),
        false => Ok(flags),
    }
}

/// The type of an option (nbd proto.md, 'Option types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionCode {
    /// Choose an export and start transmission, without error replies.
    ExportName,
    /// End the session.
    Abort,
    /// List all exports.
    List,
    /// Start TLS.
    StartTls,
    /// Describe an export.
    Info,
    /// Describe an export and start transmission.
    Go,
    /// Use structured replies.
    StructuredReply,
    /// List the metadata contexts of an export.
    ListMetaContext,
    /// Select metadata contexts of an export.
    SetMetaContext,
    /// Use extended headers.
    ExtendedHeaders,
    /// An unknown type.
    Unknown(u32),
}

impl OptionCode {
    /// Returns the number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::ExportName => 1,
            Self::Abort => 2,
            Self::List => 3,
            Self::StartTls => 5,
            Self::Info => 6,
            Self::Go => 7,
            Self::StructuredReply => 8,
            Self::ListMetaContext => 9,
            Self::SetMetaContext => 10,
            Self::ExtendedHeaders => 11,
            Self::Unknown(number) => number,
        }
    }

    /// Converts a number.
    pub fn of(number: u32) -> Self {
        match number {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            11 => Self::ExtendedHeaders,
            number => Self::Unknown(number),
        }
    }
}

/// Header of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// Type of the option.
    pub code: OptionCode,
    /// Length of the data in bytes; not validated.
    pub length: u32,
}

impl OptionHeader {
    /// Encodes the header.
    pub fn encode(self) -> [u8; OPTION_HEADER_LEN] {
        let mut bytes = [0; OPTION_HEADER_LEN];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.code.number().to_be_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Decodes a header.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        be::magic(r, OPTION_MAGIC, "an option's magic")?;
        Ok(Self { code: OptionCode::of(be::u32(r, "option")?), length: be::u32(r, "option length")? })
    }
}

/// The reason that an option was refused (nbd proto.md, 'Option reply types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionError {
    /// The server does not support the option.
    Unsupported,
    /// Forbidden by server policy.
    Policy,
    /// Malformed, or not allowed at this point.
    Invalid,
    /// Not supported by the platform.
    Platform,
    /// TLS is required.
    TlsRequired,
    /// No such export.
    Unknown,
    /// The server is shutting down.
    Shutdown,
    /// The client must request block sizes.
    BlockSizeRequired,
    /// The request is too large.
    TooBig,
    /// Extended headers are required, or already in use.
    ExtendedHeadersRequired,
}

/// All errors, in the order of their numbers from 1.
const OPTION_ERRORS: [OptionError; 10] = [
    OptionError::Unsupported,
    OptionError::Policy,
    OptionError::Invalid,
    OptionError::Platform,
    OptionError::TlsRequired,
    OptionError::Unknown,
    OptionError::Shutdown,
    OptionError::BlockSizeRequired,
    OptionError::TooBig,
    OptionError::ExtendedHeadersRequired,
];

/// Flags a reply type as an error.
const IS_ERROR: u32 = 1 << 31;

/// The type of an option reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionReplyType {
    /// Success; ends the replies.
    Ack,
    /// An export, in a list.
    Server,
    /// An information item.
    Info,
    /// A metadata context.
    MetaContext,
    /// The option is refused.
    Error(OptionError),
    /// An unknown type.
    Unknown(u32),
}

impl OptionReplyType {
    /// Returns the number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::Ack => 1,
            Self::Server => 2,
            Self::Info => 3,
            Self::MetaContext => 4,
            Self::Error(error) => IS_ERROR + 1 + error as u32,
            Self::Unknown(number) => number,
        }
    }

    /// Converts a number.
    pub fn of(number: u32) -> Self {
        let error = || OPTION_ERRORS.get((number & !IS_ERROR).checked_sub(1)? as usize);
        match number {
            1 => Self::Ack,
            2 => Self::Server,
            3 => Self::Info,
            4 => Self::MetaContext,
            _ if number & IS_ERROR != 0 => error().map_or(Self::Unknown(number), |error| Self::Error(*error)),
            number => Self::Unknown(number),
        }
    }
}

/// Header of an option reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReply {
    /// Type of the option.
    pub code: OptionCode,
    /// Type of the reply.
    pub kind: OptionReplyType,
    /// Length of the data in bytes.
    pub length: u32,
}

impl OptionReply {
    /// Encodes the header.
    pub fn encode(self) -> [u8; OPTION_REPLY_LEN] {
        let mut bytes = [0; OPTION_REPLY_LEN];
        bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.code.number().to_be_bytes());
        bytes[12..16].copy_from_slice(&self.kind.number().to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Decodes a header.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        be::magic(r, OPTION_REPLY_MAGIC, "the magic of an option's reply")?;
        let code = OptionCode::of(be::u32(r, "option")?);
        let kind = OptionReplyType::of(be::u32(r, "reply type")?);
        Ok(Self { code, kind, length: be::u32(r, "reply length")? })
    }
}

/// Size and flags of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size in bytes.
    pub size: u64,
    /// Properties of the export.
    pub flags: TransmissionFlags,
}

impl ExportInfo {
    /// Encoded length in bytes.
    pub const LEN: usize = 10;
    /// Number of zeros after the response to `EXPORT_NAME`, unless they are omitted.
    pub const ZEROES: usize = 124;

    /// Encodes the size and flags.
    pub fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes
    }

    /// Decodes the size and flags.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let size = be::u64(r, "export size")?;
        Ok(Self { size, flags: TransmissionFlags(be::u16(r, "transmission flags")?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_options_and_replies_survive_a_round_trip() {
        for number in (0..20).chain([u32::MAX]) {
            assert_eq!(OptionCode::of(number).number(), number);
            assert_eq!(OptionReplyType::of(number).number(), number);
            assert_eq!(OptionReplyType::of(IS_ERROR | number).number(), IS_ERROR | number);
        }
        let too_big = OptionReplyType::Error(OptionError::TooBig);
        assert_eq!(too_big.number(), 0x8000_0009);
    }
}
