//! The configuration of a client, and its bounds.

use crate::rpc::Credential;
use onego_buf::Pool;
use std::time::Duration;

/// What the calls of a client have in common.
#[derive(Debug, Clone)]
pub struct Config {
    /// The caller of all calls.
    pub credential: Credential,
    /// The number of the first call. Servers know calls that come again by their numbers: two clients of one machine
    /// should not begin with the same.
    pub first_xid: u32,
    /// Calls that may be under way, with those whose completions are not polled.
    pub calls: usize,
    /// Calls that may be under way on one connection.
    pub window: usize,
    /// A call that has no reply for that long is sent again over a new connection. On a connection that lives it is
    /// never sent twice: the transport loses nothing.
    pub retransmit_after: Duration,
    /// How long a connection that fails at once is waited for before the next try; it doubles with each.
    pub reconnect_min: Duration,
    /// The longest of these waits.
    pub reconnect_max: Duration,
    /// The most bytes of a reply.
    pub reply_max: usize,
    /// Calls that take as long are told of by an event of `tracing` with the target `onego::slow`; `None`: none are.
    pub slow: Option<Duration>,
    /// Gives the memory that calls are put together in.
    pub pool: Pool,
}

impl Config {
    /// What suits a file system with reads of up to 1 MiB.
    pub fn new(credential: Credential, first_xid: u32, pool: Pool) -> Self {
        Self {
            credential,
            first_xid,
            calls: 4096,
            window: 1024,
            // As Linux waits (timeo=600).
            retransmit_after: Duration::from_secs(60),
            reconnect_min: Duration::from_millis(10),
            reconnect_max: Duration::from_secs(5),
            // A payload of 1 MiB with its front, and room for servers that offer twice as much.
            reply_max: (2 << 20) + (64 << 10),
            slow: None,
            pool,
        }
    }
}
