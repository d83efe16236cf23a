//! TLS, as a server offers it: its certificate, and whom it lets in.

use onego_nbd::tls::{TlsError, authority, certificates, key};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use std::fmt;
use std::sync::Arc;

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

impl Tls {
    /// TLS 1.2 and 1.3 with a chain of certificates, the server's first, and its private key, both as PEM. With the
    /// certificates of an authority, a client has to have one that it has signed.
    ///
    /// It is offered to clients; nobody has to take it before it is [required](Self::required).
    pub fn new(chain: &[u8], private: &[u8], client_authority: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?;
        let verified = match client_authority {
            None => versions.with_no_client_auth(),
            Some(roots) => {
                let roots = authority("the certificate authority of the clients", roots)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                versions.with_client_cert_verifier(verifier.build().map_err(TlsError::Verifier)?)
            }
        };
        let chain = certificates("the certificate of the server", chain)?;
        let mut config = verified.with_single_cert(chain, key(private)?).map_err(TlsError::Unusable)?;
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
