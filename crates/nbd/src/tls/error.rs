use super::limits::TLS_HANDSHAKE_MAX;
use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use thiserror::Error;

/// Why a connection cannot go on by TLS.
#[derive(Debug, Clone, Error)]
pub enum TlsFault {
    /// The peer sends more than a handshake needs.
    #[error(
        "the peer needs more than {TLS_HANDSHAKE_MAX} bytes for a handshake of TLS: give it a shorter chain of certificates"
    )]
    HandshakeTooLong,
    /// Something else failed.
    #[error("TLS failed: {0}")]
    Tls(rustls::Error),
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate, of this side or of an authority, cannot be read.
    #[error(
        "{what} is not in the form that TLS takes: it has to be PEM, with \"-----BEGIN CERTIFICATE-----\" ({source})"
    )]
    Certificate {
        /// Which certificate.
        what: &'static str,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("{0} has no certificate: it has to be PEM, with \"-----BEGIN CERTIFICATE-----\"")]
    NoCertificate(&'static str),
    /// The private key cannot be read.
    #[error("the private key cannot be read: it has to be PEM, without a password ({0})")]
    Key(#[source] pem::Error),
    /// The key is not that of the certificate, or is of a kind that is not known.
    #[error(
        "certificate and key do not serve for TLS: they have to belong together, by RSA, ECDSA or Ed25519 ({0})"
    )]
    Unusable(#[source] rustls::Error),
    /// No peer could be verified.
    #[error("{what} cannot be used: give the one that has signed the peers' certificates ({source})")]
    Authority {
        /// Which authority.
        what: &'static str,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// No verifier can be built of what was given.
    #[error(
        "the certificate authority of the clients cannot be used: give the one that has signed their certificates ({0})"
    )]
    Verifier(#[source] VerifierBuilderError),
    /// A certificate cannot be for that.
    #[error("{0:?} is neither a name nor an address that a server's certificate can be for")]
    Name(String),
}
