use crate::codec::OptionError;
use onego_wire::DecodeError;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// Why a server cannot be used, or a connection to it has ended.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection came about.
    #[error("no connection to the server: {0}")]
    Unreachable(Arc<io::Error>),
    /// The connection ended.
    #[error("the server has closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection to the server failed: {0}")]
    Failed(Arc<io::Error>),
    /// The server did not answer in time.
    #[error("the server does not answer")]
    Silent,
    /// The server has no such export.
    #[error("the server has no export {name:?}{}", said(.message))]
    NoExport {
        /// The name that was asked for.
        name: String,
        /// What the server said, if it said something.
        message: String,
    },
    /// The server wants TLS.
    #[error("the server wants TLS, which this client does not speak: let it serve this client without")]
    Tls,
    /// The server refuses.
    #[error("the server refuses the export ({error:?}){}", said(.message))]
    Refused {
        /// Why, in the protocol's terms.
        error: OptionError,
        /// What the server said, if it said something.
        message: String,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// What the server sent cannot be read.
    #[error("the server broke the protocol: {0}")]
    Decode(#[from] DecodeError),
    /// The name of the export is too long.
    #[error("the name of an export has at most 4096 bytes")]
    Name,
}

/// What a server said, behind what is made of it.
fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
