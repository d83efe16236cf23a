//! TLS, as a server offers it: its certificate, and whom it lets in.

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// TLS of a server (nbd proto.md, 'TLS support'). It is cheap to clone.
#[derive(Clone)]
pub struct Tls {
    pub(super) config: Arc<ServerConfig>,
    pub(super) required: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("required", &self.required).finish_non_exhaustive()
    }
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate of the server, or of those who sign the clients', cannot be read.
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
    /// No client could be verified.
    #[error(
        "the certificate authority of the clients cannot be used: give the one that has signed their certificates ({0})"
    )]
    Authority(#[source] rustls::Error),
    /// No verifier can be built of what was given.
    #[error(
        "the certificate authority of the clients cannot be used: give the one that has signed their certificates ({0})"
    )]
    Verifier(#[source] VerifierBuilderError),
}

impl Tls {
    /// TLS 1.2 and 1.3 with a chain of certificates, the server's first, and its private key, both as PEM. With the
    /// certificates of an authority, a client has to have one that it has signed.
    ///
    /// It is offered to clients; nobody has to take it before it is [required](Self::required).
    pub fn new(chain: &[u8], key: &[u8], client_authority: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?;
        let verified = match client_authority {
            None => versions.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                for root in certificates("the certificate authority of the clients", authority)? {
                    roots.add(root).map_err(TlsError::Authority)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                versions.with_client_cert_verifier(verifier.build().map_err(TlsError::Verifier)?)
            }
        };
        let chain = certificates("the certificate of the server", chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsError::Key)?;
        let mut config = verified.with_single_cert(chain, key).map_err(TlsError::Unusable)?;
        // Clients stay connected: there is nothing to be gained from sessions that are taken up again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), required: false })
    }

    /// The same, for a server that tells nothing of its exports without TLS (nbd proto.md, 'FORCEDTLS mode').
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|source| TlsError::Certificate { what, source })?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(what));
    }
    Ok(all)
}
