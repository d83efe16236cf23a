use super::error::Error;
use onego_buf::Pool;
use onego_nfs::client::{self, Way};
use onego_nfs::rpc::rdma;
use onego_rdma::{Provider, iwarp};
use std::io;
use std::sync::Arc;

/// Port of NFS over RDMA (RFC 8267, section 7).
pub const RDMA_PORT: u16 = 20049;

/// Settings of NFS over RDMA. MOUNT uses TCP regardless.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rdma {
    /// Port of the server.
    pub port: u16,
    /// Largest inline message in bytes, from 1 KiB to 64 KiB; the server reads and writes longer payloads in this
    /// client's memory directly. The server may lower it.
    pub inline: u32,
    /// Whether the server may invalidate memory registrations with its reply.
    pub remote_invalidation: bool,
    /// Uses an RDMA device of this machine, instead of software iWARP over TCP. Requires the feature `rdma-core`, and
    /// has no remote invalidation.
    pub device: bool,
}

impl Default for Rdma {
    fn default() -> Self {
        Self { port: RDMA_PORT, inline: 4 << 10, remote_invalidation: true, device: false }
    }
}

impl Rdma {
    /// Sets the server's port.
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Sets the largest inline message, in bytes.
    pub fn with_inline(self, bytes: u32) -> Self {
        Self { inline: bytes, ..self }
    }

    /// Selects a device of this machine, or software iWARP.
    pub fn with_device(self, device: bool) -> Self {
        Self { device, ..self }
    }

    pub(super) fn way(&self, pool: &Pool) -> Result<Way, Error> {
        let (inline, remote_invalidation) = (self.inline, self.remote_invalidation);
        let rpc = rdma::Config { inline, remote_invalidation, ..rdma::Config::new(pool.clone()) };
        if self.device {
            return Ok(Way::Device(client::Device { provider: rdma_devices()?, rpc }));
        }
        // A reply states how many bytes of the payload's memory were written; the rest is ignored.
        let transport = iwarp::Config { foresee_writes: true, ..iwarp::Config::new(pool.clone()) };
        Ok(Way::Rdma(client::Rdma {
            transport: Arc::new(transport),
            rpc,
            entropy: || Box::new(onego_engine::random_words()),
        }))
    }
}

/// Opens the RDMA devices of this machine, which also serve servers. Fails without the feature `rdma-core`.
pub fn rdma_devices() -> Result<Arc<dyn Provider>, Error> {
    open_devices().map_err(|source| Error::Io { what: "opening the RDMA devices", source })
}

#[cfg(feature = "rdma-core")]
fn open_devices() -> io::Result<Arc<dyn Provider>> {
    Ok(Arc::new(onego_verbs::Verbs::open(onego_verbs::Config::default())?))
}

#[cfg(not(feature = "rdma-core"))]
fn open_devices() -> io::Result<Arc<dyn Provider>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "built without the feature rdma-core"))
}
