use onego_wire::DecodeError;
use thiserror::Error;

/// Why a connection cannot go on: its client broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ProtocolError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("an option has {0} bytes of data, far more than any option needs")]
    OptionTooLong(u32),
    #[error("a request has a payload of {0} bytes, more than the server has said that it takes")]
    PayloadTooLong(u64),
    #[error("the client has chosen an export that is not here, by an option that cannot fail")]
    UnknownExport,
    #[error("the client has agreed to extended headers and uses an option that does not go with them")]
    ExportNameWithExtendedHeaders,
    #[error("the client has not ended the handshake in time")]
    HandshakeTooLong,
}
