use crate::codec::OptionError;
use crate::tls::TlsFault;
use onego_wire::DecodeError;
use std::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// A form of the handshake that this client does not speak (nbd proto.md, 'Handshake phase').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldHandshake {
    /// The server describes its only export at once.
    Oldstyle,
    /// The server ends the connection when it does not know an option.
    UnfixedNewstyle,
}

impl fmt::Display for OldHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Oldstyle => "oldstyle",
            Self::UnfixedNewstyle => "unfixed newstyle",
        })
    }
}

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
    /// The export ends in a part of a block.
    #[error(
        "the export has {size} bytes, no multiple of the server's minimum block size {minimum}: its end cannot be read or written"
    )]
    PartialBlock {
        /// Bytes of the export.
        size: u64,
        /// Bytes of the smallest request.
        minimum: u32,
    },
    /// The server speaks an older form of the handshake.
    #[error(
        "the server speaks the {0} handshake, which is too old: upgrade it, or have it speak the fixed newstyle one (nbdkit: \
         leave out --oldstyle)"
    )]
    TooOld(OldHandshake),
    /// The server wants TLS.
    #[error(
        "the server wants TLS: name it by nbds:// with tls-certificates=FOLDER, or let it serve this client without"
    )]
    TlsRequired,
    /// The server has no TLS.
    #[error("the server does not offer TLS{}: name it by nbd:// to use it in the clear", said(.message))]
    NoTls {
        /// What the server said, if it said something.
        message: String,
    },
    /// Bytes came in the clear where TLS was to begin.
    #[error(
        "bytes came in the clear behind the server's answer about TLS: somebody on the way may have added them"
    )]
    ClearBehindStartTls,
    /// The server has ended the connection before it had answered by TLS. Some say no more to clients whom they do not trust.
    #[error(
        "the server has ended the connection instead of going on by TLS: it may want a certificate in client-cert.pem, of the \
         authority that it trusts"
    )]
    TlsEnded,
    /// TLS failed.
    #[error("{}", tls_advice(.0))]
    Tls(#[from] TlsFault),
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

/// What failed, and what to do about it.
fn tls_advice(fault: &TlsFault) -> String {
    match fault {
        TlsFault::Tls(rustls::Error::InvalidCertificate(why)) => format!(
            "the server's certificate is refused: it has to be valid now, for the name by which the server is reached, and of the \
             authority in ca-cert.pem ({why:?})"
        ),
        TlsFault::Tls(rustls::Error::AlertReceived(alert)) => format!(
            "the server has refused this client's part of TLS ({alert:?}): client-cert.pem has to be of the authority that the \
             server trusts"
        ),
        fault => fault.to_string(),
    }
}

/// What a server said, behind what is made of it.
fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
