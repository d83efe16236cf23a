use super::limits::TLS_HANDSHAKE_MAX;
use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use thiserror::Error;

/// A failure of TLS on a connection.
#[derive(Debug, Clone, Error)]
pub enum TlsFault {
    /// The peer's handshake is too long.
    #[error(
        "the peer's TLS handshake exceeds {TLS_HANDSHAKE_MAX} bytes: give it a shorter certificate chain"
    )]
    HandshakeTooLong,
    /// Another failure.
    #[error("TLS failed: {0}")]
    Tls(rustls::Error),
}

/// An invalid TLS configuration.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate of this side or of an authority cannot be parsed.
    #[error("cannot parse {what}: it must be PEM, with \"-----BEGIN CERTIFICATE-----\" ({source})")]
    Certificate {
        /// The certificate.
        what: &'static str,
        /// The parser's error.
        source: pem::Error,
    },
    /// The file contains no certificate.
    #[error("{0} has no certificate: it must be PEM, with \"-----BEGIN CERTIFICATE-----\"")]
    NoCertificate(&'static str),
    /// The private key cannot be parsed.
    #[error("the private key cannot be read: it must be PEM, without a password ({0})")]
    Key(#[source] pem::Error),
    /// The key does not match the certificate, or its type is not supported.
    #[error(
        "certificate and key cannot be used for TLS: they must belong together and use RSA, ECDSA or Ed25519 ({0})"
    )]
    Unusable(#[source] rustls::Error),
    /// An authority's certificate cannot be used.
    #[error("{what} cannot be used: provide the authority that signed the peers' certificates ({source})")]
    Authority {
        /// The authority.
        what: &'static str,
        /// The error of rustls.
        source: rustls::Error,
    },
    /// The authorities cannot be used to verify clients.
    #[error(
        "the certificate authority of the clients cannot be used: provide the one that signed their certificates ({0})"
    )]
    Verifier(#[source] VerifierBuilderError),
    /// Certificates cannot be issued for this name.
    #[error("{0:?} is neither a name nor an address that a server certificate can have")]
    Name(String),
}
