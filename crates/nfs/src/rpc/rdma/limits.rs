//! The configuration of both ends, and what follows from it and from what the peer says.

use super::header::Parameters;
use onego_buf::Pool;

/// The smallest and the largest message that an end may be told to take: what everybody takes (RFC 8166, section 3.3.2),
/// and what Linux has as its bound.
const INLINE: (u32, u32) = (1 << 10, 64 << 10);

/// What the connections of one process have in common.
#[derive(Debug, Clone)]
pub struct Config {
    /// Most bytes of a message: what is longer goes by RDMA Reads and Writes. From 1 KiB to 64 KiB; messages in one
    /// direction are as long as both ends allow.
    pub inline: u32,
    /// Calls that may be under way.
    pub credits: u32,
    /// Let the peer invalidate memory of this side (client), or invalidate the peer's if it wants that (server).
    pub remote_invalidation: bool,
    /// Most bytes of a call or a reply.
    pub message_max: usize,
    /// Bytes that a server reads from a client's memory at a time, or one call if that has more.
    pub reading_max: usize,
    /// Gives the memory of messages that come in, and of headers.
    pub pool: Pool,
}

impl Config {
    /// What suits NFS: messages of 4 KiB and 128 calls, as Linux's client has them, and payloads of 1 MiB.
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

    /// What is told to the peer, as private data of the connection.
    pub fn parameters(&self) -> Parameters {
        let inline = self.inline();
        Parameters { remote_invalidation: self.remote_invalidation, send_size: inline, receive_size: inline }
    }

    fn inline(&self) -> u32 {
        self.inline.clamp(INLINE.0, INLINE.1) & !(INLINE.0 - 1)
    }

    /// Calls that may be under way: one at least.
    pub(super) fn credits(&self) -> usize {
        self.credits.max(1) as usize
    }
}

/// Most bytes of messages, by direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inline {
    pub(super) send: usize,
    pub(super) receive: usize,
}

impl Inline {
    /// What both ends allow (RFC 8797, section 4.2).
    pub(super) fn agreed(ours: Parameters, peers: Parameters) -> Self {
        Self {
            send: ours.send_size.min(peers.receive_size) as usize,
            receive: ours.receive_size.min(peers.send_size) as usize,
        }
    }
}
