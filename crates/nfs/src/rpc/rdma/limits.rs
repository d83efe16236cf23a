//! Configuration of both sides, and limits negotiated with the peer.

use super::header::Parameters;
use onego_buf::Pool;

/// Range of the inline threshold: the RFC's default that every peer accepts (RFC 8166, section 3.3.2), and Linux's
/// maximum.
const INLINE: (u32, u32) = (1 << 10, 64 << 10);

/// Shared configuration of a process's connections.
#[derive(Debug, Clone)]
pub struct Config {
    /// Maximum size of a message in bytes, from 1 KiB to 64 KiB; longer data is transferred by RDMA Reads and Writes.
    /// Each direction uses the smaller limit of the two sides.
    pub inline: u32,
    /// Maximum number of calls in flight per connection.
    pub credits: u32,
    /// On a client, whether the server may invalidate its memory; on a server, whether to invalidate the memory of
    /// clients that allow it.
    pub remote_invalidation: bool,
    /// Maximum size of a call or a reply in bytes.
    pub message_max: usize,
    /// Maximum number of bytes that a server reads from one client at a time. A single larger call is still read.
    pub reading_max: usize,
    /// Pool for received messages and headers.
    pub pool: Pool,
}

impl Config {
    /// Creates a configuration for NFS: 4 KiB messages and 128 calls like Linux's client, and 1 MiB payloads.
    pub fn new(pool: Pool) -> Self {
        Self {
            inline: 4 << 10,
            credits: 128,
            remote_invalidation: true,
            message_max: (1 << 20) + (64 << 10),
            reading_max: 16 << 20,
            pool,
        }
    }

    /// Returns the parameters to send to the peer as private data.
    pub fn parameters(&self) -> Parameters {
        let inline = self.inline();
        Parameters { remote_invalidation: self.remote_invalidation, send_size: inline, receive_size: inline }
    }

    fn inline(&self) -> u32 {
        self.inline.clamp(INLINE.0, INLINE.1) & !(INLINE.0 - 1)
    }

    pub(super) fn credits(&self) -> usize {
        self.credits.max(1) as usize
    }
}

/// Negotiated maximum message sizes in bytes, by direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inline {
    pub(super) send: usize,
    pub(super) receive: usize,
}

impl Inline {
    pub(super) fn agreed(ours: Parameters, peers: Parameters) -> Self {
        Self {
            send: ours.send_size.min(peers.receive_size) as usize,
            receive: ours.receive_size.min(peers.send_size) as usize,
        }
    }
}
