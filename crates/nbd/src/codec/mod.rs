//! The messages of NBD. All integers are big-endian (nbd proto.md, 'Conventions').
//!
//! Decoders look at bytes that are here, check every length against them and against a named bound, and take memory for
//! nothing else. Both directions are here: a server decodes what a client encodes, and the other way round.

mod be;
mod error;
mod flags;
mod handshake;
mod options;
mod reply;
mod request;

pub use be::STRING_MAX;
pub use error::ErrorCode;
pub use flags::{ClientFlags, CommandFlags, HandshakeFlags, TransmissionFlags};
pub use handshake::{
    CLIENT_FLAGS_LEN, ExportInfo, GREETING_LEN, Greeting, OPTION_HEADER_LEN, OPTION_REPLY_LEN, OptionCode,
    OptionError, OptionHeader, OptionReply, OptionReplyType, client_flags,
};
pub use options::{BlockSizes, InfoItem, InfoQuery, InfoType, MetaContext, MetaQuery, ServerEntry};
pub use reply::{
    ChunkHeader, ChunkType, EXTENDED_CHUNK_LEN, EXTENTS_MAX, ErrorChunk, ReplyHeader, SIMPLE_REPLY_LEN,
    STRUCTURED_CHUNK_LEN, SimpleReply, StatusChunk,
};
pub use request::{
    COMPACT_REQUEST_LEN, EXTENDED_REQUEST_LEN, HeaderStyle, RequestHeader, RequestType, StatusPayload,
};
