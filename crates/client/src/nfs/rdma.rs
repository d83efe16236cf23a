//! How a file server is reached over RDMA.

use onego_buf::Pool;
use onego_nfs::client::{self, Way};
use onego_nfs::rpc::rdma;
use onego_rdma::iwarp;
use std::sync::Arc;

/// The port where servers listen for NFS over RDMA (RFC 8267, section 7).
pub const RDMA_PORT: u16 = 20049;

/// How a file server is reached over RDMA: by iWARP in software, on a TCP connection. MOUNT is asked over TCP all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rdma {
    /// The server's port.
    pub port: u16,
    /// Most bytes of a message, from 1 KiB to 64 KiB: what is longer is read and written by the server in memory of this
    /// side. The server has a say in it, too.
    pub inline: u32,
    /// May the server end the registration of memory with its reply?
    pub remote_invalidation: bool,
}

impl Default for Rdma {
    fn default() -> Self {
        Self { port: RDMA_PORT, inline: 4 << 10, remote_invalidation: true }
    }
}

impl Rdma {
    pub(super) fn way(&self, pool: &Pool) -> Way {
        let (inline, remote_invalidation) = (self.inline, self.remote_invalidation);
        Way::Rdma(client::Rdma {
            transport: Arc::new(iwarp::Config::new(pool.clone())),
            rpc: rdma::Config { inline, remote_invalidation, ..rdma::Config::new(pool.clone()) },
            entropy: || Box::new(onego_engine::random_words()),
        })
    }
}
