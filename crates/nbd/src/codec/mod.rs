//! Messages of the NBD protocol. All integers are big-endian (nbd proto.md, 'Conventions').
//!
//! Decoders check every length against the available data and a named bound, and allocate no memory for anything else.
//! Both directions are supported: a server decodes what a client encodes, and vice versa.

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
