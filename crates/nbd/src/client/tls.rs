//! TLS configuration of a client: trusted authorities and the client's identity.

use crate::tls::{TlsError, authority, certificates, key};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::fmt;
use std::sync::Arc;

/// TLS configuration of a client (nbd proto.md, 'TLS support'). Cheap to clone.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Creates a configuration for TLS 1.2 and 1.3. The server must have a certificate for the name or address
    /// `server`, signed by one of the authorities `roots`. `own` identifies the client by its certificate chain, leaf
    /// first, and its private key. All inputs are PEM.
    pub fn new(server: &str, roots: &[u8], own: Option<(&[u8], &[u8])>) -> Result<Self, TlsError> {
        let name = ServerName::try_from(server.to_owned());
        let server = name.map_err(|_| TlsError::Name(server.to_owned()))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_root_certificates(authority("the certificate authority of the server", roots)?);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, private)) => builder
                .with_client_auth_cert(certificates("the certificate of the client", chain)?, key(private)?)
                .map_err(TlsError::Unusable)?,
        };
        Ok(Self { config: Arc::new(config), server })
    }

    pub(super) fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.server.clone())
    }
}
