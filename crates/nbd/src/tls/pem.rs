//! Certificates and keys, as they are in files.

use super::error::TlsError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates of a file of PEM. `what` names it in errors.
pub fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|source| TlsError::Certificate { what, source })?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(what));
    }
    Ok(all)
}

/// The certificates of an authority, as those by which peers are verified.
pub fn authority(what: &'static str, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(what, pem)? {
        roots.add(root).map_err(|source| TlsError::Authority { what, source })?;
    }
    Ok(roots)
}

/// The private key of a file of PEM.
pub fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(TlsError::Key)
}
