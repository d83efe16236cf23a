//! How a file server is reached over RDMA.

use super::error::Error;
use onego_buf::Pool;
use onego_nfs::client::{self, Way};
use onego_nfs::rpc::rdma;
use onego_rdma::{Provider, iwarp};
use std::io;
use std::sync::Arc;

/// The port where servers listen for NFS over RDMA (RFC 8267, section 7).
pub const RDMA_PORT: u16 = 20049;

/// How a file server is reached over RDMA. MOUNT is asked over TCP all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rdma {
    /// The server's port.
    pub port: u16,
    /// Most bytes of a message, from 1 KiB to 64 KiB: what is longer is read and written by the server in memory of this
    /// side. The server has a say in it, too.
    pub inline: u32,
    /// May the server end the registration of memory with its reply?
    pub remote_invalidation: bool,
    /// By a device of this machine; else by iWARP in software, on a TCP connection. It takes the feature `rdma-core`, and
    /// there is no remote invalidation.
    pub device: bool,
}

impl Default for Rdma {
    fn default() -> Self {
        Self { port: RDMA_PORT, inline: 4 << 10, remote_invalidation: true, device: false }
    }
}

impl Rdma {
    /// The same, at this port of the server.
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The same, with a bound on the length of a message that is sent inline, in bytes.
    pub fn with_inline(self, bytes: u32) -> Self {
        Self { inline: bytes, ..self }
    }

    /// The same, by a device of this machine, or by iWARP in software.
    pub fn with_device(self, device: bool) -> Self {
        Self { device, ..self }
    }

    pub(super) fn way(&self, pool: &Pool) -> Result<Way, Error> {
        let (inline, remote_invalidation) = (self.inline, self.remote_invalidation);
        let rpc = rdma::Config { inline, remote_invalidation, ..rdma::Config::new(pool.clone()) };
        if self.device {
            return Ok(Way::Device(client::Device { provider: rdma_devices()?, rpc }));
        }
        // A reply says how much of a payload's memory is written: the rest is not looked at.
        let transport = iwarp::Config { foresee_writes: true, ..iwarp::Config::new(pool.clone()) };
        Ok(Way::Rdma(client::Rdma {
            transport: Arc::new(transport),
            rpc,
            entropy: || Box::new(onego_engine::random_words()),
        }))
    }
}

/// The devices of this machine, for servers, too. It takes the feature `rdma-core`.
pub fn rdma_devices() -> Result<Arc<dyn Provider>, Error> {
    open_devices().map_err(|source| Error::Io { what: "cannot use RDMA by a device", source })
}

#[cfg(feature = "rdma-core")]
fn open_devices() -> io::Result<Arc<dyn Provider>> {
    Ok(Arc::new(onego_verbs::Verbs::open(onego_verbs::Config::default())?))
}

#[cfg(not(feature = "rdma-core"))]
fn open_devices() -> io::Result<Arc<dyn Provider>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this was built without its feature rdma-core"))
}
