//! Certificates and keys in PEM files.

use super::error::TlsError;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Parses all certificates of a PEM file. `what` names the file in errors.
pub fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|source| TlsError::Certificate { what, source })?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(what));
    }
    Ok(all)
}

/// Parses the certificates of an authority as roots of trust.
pub fn authority(what: &'static str, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(what, pem)? {
        roots.add(root).map_err(|source| TlsError::Authority { what, source })?;
    }
    Ok(roots)
}

/// Parses the private key of a PEM file.
pub fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(TlsError::Key)
}
