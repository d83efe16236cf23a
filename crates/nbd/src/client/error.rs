use crate::codec::OptionError;
use crate::tls::TlsFault;
use onego_wire::DecodeError;
use std::fmt;
use std::io;
use std::sync::Arc;
use thiserror::Error;

/// A handshake variant that this client does not support (nbd proto.md, 'Handshake phase').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldHandshake {
    /// The server describes its only export immediately.
    Oldstyle,
    /// The server disconnects on unknown options.
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

/// The reason that a server cannot be used, or that a connection ended.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection could not be established.
    #[error("no connection to the server: {0}")]
    Unreachable(Arc<io::Error>),
    /// The server closed the connection.
    #[error("the server has closed the connection")]
    Closed,
    /// The connection failed.
    #[error("the connection to the server failed: {0}")]
    Failed(Arc<io::Error>),
    /// The server did not respond in time.
    #[error("the server does not respond")]
    Silent,
    /// The server has no such export.
    #[error("the server has no export {name:?}{}", said(.message))]
    NoExport {
        /// Name of the requested export.
        name: String,
        /// The server's message; may be empty.
        message: String,
    },
    /// The size of the export is not a multiple of the minimum block size.
    #[error(
        "the export size {size} is not a multiple of the server's minimum block size {minimum}: its end is inaccessible"
    )]
    PartialBlock {
        /// Size of the export in bytes.
        size: u64,
        /// Minimum block size in bytes.
        minimum: u32,
    },
    /// The server uses an older handshake.
    #[error(
        "the server speaks the {0} handshake, which is too old: upgrade it, or have it speak the fixed newstyle one (nbdkit: \
         leave out --oldstyle)"
    )]
    TooOld(OldHandshake),
    /// The server requires TLS.
    #[error(
        "the server wants TLS: use nbds:// with tls-certificates=FOLDER, or configure the server to allow clients without TLS"
    )]
    TlsRequired,
    /// The server does not offer TLS.
    #[error("the server does not offer TLS{}: use nbd:// to connect without encryption", said(.message))]
    NoTls {
        /// The server's message; may be empty.
        message: String,
    },
    /// Cleartext arrived where TLS should have begun.
    #[error(
        "unencrypted data followed the server's reply to STARTTLS: it may have been injected on the network path"
    )]
    ClearBehindStartTls,
    /// The server disconnected before its TLS handshake. Some servers silently drop clients that they do not trust.
    #[error(
        "the server closed the connection instead of starting TLS: it may require a client certificate \
         (client-cert.pem) signed by an authority that it trusts"
    )]
    TlsEnded,
    /// TLS failed.
    #[error("{}", tls_advice(.0))]
    Tls(#[from] TlsFault),
    /// The server refuses the export.
    #[error("the server refuses the export ({error:?}){}", said(.message))]
    Refused {
        /// The protocol's error code.
        error: OptionError,
        /// The server's message; may be empty.
        message: String,
    },
    /// The server violated the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// A message from the server cannot be decoded.
    #[error("the server broke the protocol: {0}")]
    Decode(#[from] DecodeError),
    /// The name of the export is too long.
    #[error("the name of the export exceeds 4096 bytes")]
    Name,
}

fn tls_advice(fault: &TlsFault) -> String {
    match fault {
        TlsFault::Tls(rustls::Error::InvalidCertificate(why)) => format!(
            "the server's certificate is rejected: it must be valid now, be issued for the server's name, and be signed by the \
             authority in ca-cert.pem ({why:?})"
        ),
        TlsFault::Tls(rustls::Error::AlertReceived(alert)) => format!(
            "the server rejected this client's TLS handshake ({alert:?}): client-cert.pem must be signed by an authority that \
             the server trusts"
        ),
        fault => fault.to_string(),
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
