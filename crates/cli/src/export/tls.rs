//! TLS of an export: which files say who the server is, and whom it lets in.

use crate::failure::Failure;
use onego_export::nbd::Tls;
use std::path::{Path, PathBuf};

/// Options of TLS.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsOptions {
    /// Serve by TLS, with this certificate, and behind it those that lead to its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM, without a password)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients that have a certificate of this authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Whether clients without TLS are served, too [default: require]
    #[arg(long, value_enum, requires = "tls_cert")]
    tls: Option<TlsUse>,
}

/// Which clients are served: those with TLS alone, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TlsUse {
    /// Only clients that use TLS
    Require,
    /// All clients
    Allow,
}

impl TlsOptions {
    /// Reads the files. `None`: there is no TLS.
    pub(super) fn load(&self) -> Result<Option<Tls>, Failure> {
        let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let (key, chain) = (read(key)?, read(chain)?);
        let authority = self.tls_ca.as_deref().map(read).transpose()?;
        let tls = Tls::new(&chain, &key, authority.as_deref());
        let tls = tls.map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Some(if self.is_required() { tls.required() } else { tls }))
    }

    /// Is nobody served without TLS?
    pub(super) fn is_required(&self) -> bool {
        self.tls_cert.is_some() && self.tls != Some(TlsUse::Allow)
    }

    /// Is nobody served without a certificate?
    pub(super) fn knows_clients(&self) -> bool {
        self.is_required() && self.tls_ca.is_some()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(Failure::file(path))
}
