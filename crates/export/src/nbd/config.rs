use super::limits::BOUNDS;
use super::tls::Tls;
use onego_buf::Pool;
use std::time::Duration;

/// What a server is told to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// Gives memory for payloads and headers.
    pub pool: Pool,
    /// Most connections, at most 4096. One address may have half of them.
    pub connections: usize,
    /// TLS, for clients that ask for it, or for all of them.
    pub tls: Option<Tls>,
    /// Requests that take as long are told of by an event of `tracing` with the target `onego::slow`; `None`: none are.
    pub slow: Option<Duration>,
}

impl Default for Config {
    /// As many connections as may be, 32 MiB of idle memory, and no TLS.
    fn default() -> Self {
        Self { pool: Pool::new(32 << 20), connections: BOUNDS.connections, tls: None, slow: None }
    }
}
