//! Clients of TLS, and certificates for them and for the server.

use onego_export::nbd::Tls;
use onego_testkit::{DrivenServer, Who};
use onego_wire::Machine;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

/// The name that clients know the server by.
pub(crate) const NAME: &str = "nbd.example";

/// A certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for that name, until the first day of that year.
    pub(crate) fn sign(&self, name: &str, until: i32) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    pub(crate) fn sign_server(&self) -> Identity {
        self.sign(NAME, 4000)
    }

    pub(crate) fn sign_client(&self) -> Identity {
        self.sign("client.example", 4000)
    }

    /// TLS of a server whose certificate this authority has signed. Its clients need one of `clients`.
    pub(crate) fn serve(&self, clients: Option<&Authority>) -> Tls {
        let Identity { certificate, key } = self.sign_server();
        let clients = clients.map(|authority| authority.certificate.as_bytes());
        Tls::new(certificate.as_bytes(), key.as_bytes(), clients).unwrap()
    }

    /// A client that trusts this authority, by one version of TLS.
    pub(crate) fn client(
        &self,
        identity: Option<&Identity>,
        version: &'static SupportedProtocolVersion,
    ) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let mut client = ClientConnection::new(Arc::new(config), NAME.try_into().unwrap()).unwrap();
        client.set_buffer_limit(None);
        client
    }
}

/// The layer of a client: what comes is opened, and what it sends is sealed.
pub(crate) struct TlsClient {
    tls: ClientConnection,
    /// Why it does not trust the server, or the server not it.
    pub(crate) error: Option<rustls::Error>,
    /// The server has said that nothing more comes.
    pub(crate) ended: bool,
}

impl TlsClient {
    pub(crate) fn new(tls: ClientConnection) -> Self {
        Self { tls, error: None, ended: false }
    }

    pub(crate) fn seal(&mut self, clear: &[u8]) {
        self.tls.writer().write_all(clear).unwrap();
    }

    /// Opens what came.
    pub(crate) fn open(&mut self, mut came: &[u8], clear: &mut Vec<u8>) {
        while !came.is_empty() && self.error.is_none() {
            if self.tls.read_tls(&mut came).unwrap() == 0 {
                break;
            }
            match self.tls.process_new_packets() {
                Ok(state) => {
                    let at = clear.len();
                    clear.resize(at + state.plaintext_bytes_to_read(), 0);
                    self.tls.reader().read_exact(&mut clear[at..]).unwrap();
                    self.ended |= state.peer_has_closed();
                }
                Err(error) => self.error = Some(error),
            }
        }
    }

    /// Sends the records that are ready. `false`: there are none.
    pub(crate) fn send<M: Machine>(&mut self, who: Who, to: &mut DrivenServer<M>) -> bool {
        let mut records = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut records).unwrap();
        }
        to.send_bytes(who, &records);
        !records.is_empty()
    }
}
