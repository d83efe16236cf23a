//! The greeting, and the envelopes of options and of their replies.

use super::be;
use super::flags::{ClientFlags, HandshakeFlags, TransmissionFlags};
use onego_wire::{DecodeError, Decoded, Reader};

/// "NBDMAGIC" and "IHAVEOPT" (nbd proto.md, 'Newstyle negotiation').
const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// In the place of the latter where the handshake is oldstyle (nbd proto.md, 'Oldstyle negotiation').
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Before each reply to an option (nbd proto.md, 'Fixed newstyle negotiation').
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Bytes of a server's greeting.
pub const GREETING_LEN: usize = 18;
/// Bytes of the client's flags.
pub const CLIENT_FLAGS_LEN: usize = 4;
/// Bytes of an option before its data.
pub const OPTION_HEADER_LEN: usize = 16;
/// Bytes of the reply to an option before its data.
pub const OPTION_REPLY_LEN: usize = 20;

/// The first that a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting(pub HandshakeFlags);

impl Greeting {
    /// The bytes.
    pub fn encode(self) -> [u8; GREETING_LEN] {
        let mut bytes = [0; GREETING_LEN];
        bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[16..].copy_from_slice(&self.0.0.to_be_bytes());
        bytes
    }

    /// Returns whether a server begins the oldstyle handshake, which has as many bytes and more (nbd proto.md, 'Oldstyle
    /// negotiation').
    pub fn is_oldstyle(bytes: &[u8]) -> bool {
        bytes
            .strip_prefix(&NBD_MAGIC.to_be_bytes())
            .is_some_and(|rest| rest.starts_with(&OLDSTYLE_MAGIC.to_be_bytes()))
    }

    /// Reads it.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        be::magic(r, NBD_MAGIC, "the server's first magic")?;
        be::magic(r, OPTION_MAGIC, "the server's second magic")?;
        Ok(Self(HandshakeFlags(be::u16(r, "handshake flags")?)))
    }
}

/// Reads a client's flags. Unknown ones are an error (nbd proto.md, 'Client flags').
pub fn client_flags(r: &mut Reader<'_>) -> Decoded<ClientFlags> {
    let flags = ClientFlags(be::u32(r, "client flags")?);
    match flags.exceeds(ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES) {
        true => Err(DecodeError::Invalid { what: "client flags", value: u64::from(flags.0) }),
        false => Ok(flags),
    }
}

/// What an option is about (nbd proto.md, 'Option types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionCode {
    /// Choose an export and go on to transmission, without any error.
    ExportName,
    /// End the session.
    Abort,
    /// Name all exports.
    List,
    /// Go on encrypted.
    StartTls,
    /// Describe an export.
    Info,
    /// Describe an export and go on to transmission.
    Go,
    /// Use structured replies.
    StructuredReply,
    /// Name the metadata contexts of an export.
    ListMetaContext,
    /// Choose the metadata contexts of an export.
    SetMetaContext,
    /// Use extended headers.
    ExtendedHeaders,
    /// Any other.
    Unknown(u32),
}

impl OptionCode {
    /// The number on the wire.
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

    /// The option of a number.
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

/// What is before the data of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// Which option.
    pub code: OptionCode,
    /// Bytes of data: nothing bounds them yet.
    pub length: u32,
}

impl OptionHeader {
    /// The bytes.
    pub fn encode(self) -> [u8; OPTION_HEADER_LEN] {
        let mut bytes = [0; OPTION_HEADER_LEN];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.code.number().to_be_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Reads it.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        be::magic(r, OPTION_MAGIC, "an option's magic")?;
        Ok(Self { code: OptionCode::of(be::u32(r, "option")?), length: be::u32(r, "option length")? })
    }
}

/// Why an option is refused (nbd proto.md, 'Option reply types').
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionError {
    /// The server does not know it.
    Unsupported,
    /// The server's policy forbids it.
    Policy,
    /// It is not well-formed, or not allowed here.
    Invalid,
    /// The platform cannot do it.
    Platform,
    /// TLS is to be used.
    TlsRequired,
    /// There is no such export.
    Unknown,
    /// The server is about to end.
    Shutdown,
    /// The client has to ask for block sizes.
    BlockSizeRequired,
    /// Too much is asked for at once.
    TooBig,
    /// Extended headers are to be used, or are used already.
    ExtendedHeadersRequired,
}

/// All of them; each has the number of its place, from 1 on.
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

/// Set in the type of each reply that is an error.
const IS_ERROR: u32 = 1 << 31;

/// What the reply to an option says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionReplyType {
    /// It is done.
    Ack,
    /// One export.
    Server,
    /// One item of information.
    Info,
    /// One metadata context.
    MetaContext,
    /// It is refused.
    Error(OptionError),
    /// Any other.
    Unknown(u32),
}

impl OptionReplyType {
    /// The number on the wire.
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

    /// The type of a number.
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

/// What is before the data of the reply to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReply {
    /// The option.
    pub code: OptionCode,
    /// What the reply says.
    pub kind: OptionReplyType,
    /// Bytes of data.
    pub length: u32,
}

impl OptionReply {
    /// The bytes.
    pub fn encode(self) -> [u8; OPTION_REPLY_LEN] {
        let mut bytes = [0; OPTION_REPLY_LEN];
        bytes[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.code.number().to_be_bytes());
        bytes[12..16].copy_from_slice(&self.kind.number().to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Reads it.
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
    /// Bytes.
    pub size: u64,
    /// What it can.
    pub flags: TransmissionFlags,
}

impl ExportInfo {
    /// Bytes of it.
    pub const LEN: usize = 10;
    /// Zeros behind it in the answer to `EXPORT_NAME`, unless they are left out.
    pub const ZEROES: usize = 124;

    /// The bytes.
    pub fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.size.to_be_bytes());
        bytes[8..].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes
    }

    /// Reads it.
    pub fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let size = be::u64(r, "export size")?;
        Ok(Self { size, flags: TransmissionFlags(be::u16(r, "transmission flags")?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_options_and_replies_come_back() {
        for number in (0..20).chain([u32::MAX]) {
            assert_eq!(OptionCode::of(number).number(), number);
            assert_eq!(OptionReplyType::of(number).number(), number);
            assert_eq!(OptionReplyType::of(IS_ERROR | number).number(), IS_ERROR | number);
        }
        let too_big = OptionReplyType::Error(OptionError::TooBig);
        assert_eq!(too_big.number(), 0x8000_0009);
    }
}
