use onego_nbd::tls::{TLS_HANDSHAKE_MAX, TlsFault};
use onego_wire::DecodeError;
use thiserror::Error;

/// Why a connection cannot go on: its client broke the protocol.
#[derive(Debug, Clone, Error)]
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
    #[error(
        "the client has chosen an export without TLS, by an option that cannot fail: it has to start TLS first"
    )]
    TlsRequired,
    #[error(
        "the client has sent bytes in the clear behind its wish for TLS: somebody on the way may have added them"
    )]
    ClearBehindStartTls,
    #[error(
        "the client needs more than {TLS_HANDSHAKE_MAX} bytes for a handshake of TLS: give it a shorter chain of certificates"
    )]
    TlsHandshakeTooLong,
    #[error("{}", tls_advice(.0))]
    Tls(rustls::Error),
}

impl From<TlsFault> for ProtocolError {
    fn from(fault: TlsFault) -> Self {
        match fault {
            TlsFault::HandshakeTooLong => Self::TlsHandshakeTooLong,
            TlsFault::Tls(error) => Self::Tls(error),
        }
    }
}

/// What failed, and what to do where that is the client's part.
fn tls_advice(error: &rustls::Error) -> String {
    match error {
        rustls::Error::NoCertificatesPresented => {
            "the client has no certificate: give it one of the authority that the server trusts".into()
        }
        rustls::Error::InvalidCertificate(why) => {
            format!(
                "the client's certificate is refused: give it one that is valid now, of the authority that the server trusts ({why:?})"
            )
        }
        rustls::Error::AlertReceived(alert) => {
            format!(
                "the client has refused the server's part of TLS ({alert:?}): its authority has to have signed the server's certificate, for the name that the client uses"
            )
        }
        _ => format!("TLS failed: {error}"),
    }
}
