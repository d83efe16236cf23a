//! Client configuration.

use crate::rpc::Credential;
use onego_buf::Pool;
use std::time::Duration;

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct Config {
    /// Credential of all calls.
    pub credential: Credential,
    /// Xid of the first call. Servers recognize retransmissions by xid: two clients on one machine should start with
    /// different numbers.
    pub first_xid: u32,
    /// Maximum number of calls in progress, including completions not taken.
    pub calls: usize,
    /// Maximum number of calls in flight per connection.
    pub window: usize,
    /// Time without a reply after which a call is sent again over a new connection. A call is never sent twice on one
    /// connection, because the transport is reliable.
    pub retransmit_after: Duration,
    /// Delay before reconnecting after a connection fails; it doubles with each failure.
    pub reconnect_min: Duration,
    /// Maximum reconnect delay.
    pub reconnect_max: Duration,
    /// Maximum size of a reply in bytes.
    pub reply_max: usize,
    /// Calls that take at least this long are logged by `tracing` with the target `onego::slow`; `None` logs none.
    pub slow: Option<Duration>,
    /// Pool for encoding calls and for fresh memory.
    pub pool: Pool,
}

impl Config {
    /// Creates a configuration for a file system with reads of up to 1 MiB.
    pub fn new(credential: Credential, first_xid: u32, pool: Pool) -> Self {
        Self {
            credential,
            first_xid,
            calls: 4096,
            window: 1024,
            // Linux's default (timeo=600).
            retransmit_after: Duration::from_secs(60),
            reconnect_min: Duration::from_millis(10),
            reconnect_max: Duration::from_secs(5),
            // A 1 MiB payload with its front, with room for servers that offer twice as much.
            reply_max: (2 << 20) + (64 << 10),
            slow: None,
            pool,
        }
    }
}
