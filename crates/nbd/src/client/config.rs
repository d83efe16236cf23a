use super::tls::ClientTls;
use crate::codec::STRING_MAX;
use onego_buf::Pool;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Maximum connections of one client: more bring no benefit, and servers limit them.
pub(super) const CONNECTIONS_MAX: usize = 16;

/// The address of a server.
pub enum Endpoint {
    /// TCP addresses, tried in rotation.
    Tcp(Vec<SocketAddr>),
    /// A function that connects a socket of any family without blocking.
    Dial(Box<dyn FnMut() -> io::Result<OwnedFd>>),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addresses) => f.debug_tuple("Tcp").field(addresses).finish(),
            Self::Dial(_) => f.write_str("Dial"),
        }
    }
}

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name of the export; empty for the default export.
    pub export: String,
    /// TLS configuration; `None` connects in the clear.
    pub tls: Option<ClientTls>,
    /// Number of connections, from 1 to 16. More than one are only opened if the server allows it (`CAN_MULTI_CONN`: a
    /// flush on one connection covers writes on the others).
    pub connections: usize,
    /// Time after which requests fail if the server is unreachable or does not answer.
    pub patience: Duration,
    /// Random seed that should differ between clients: it spreads their reconnect attempts.
    pub seed: u64,
    /// Pool for read data and headers.
    pub pool: Pool,
}

impl Config {
    /// Creates a configuration with one connection and a patience of one minute.
    pub fn new(export: &str) -> Self {
        Self {
            export: export.to_owned(),
            tls: None,
            connections: 1,
            patience: Duration::from_secs(60),
            seed: 0,
            pool: Pool::new(32 << 20),
        }
    }

    pub(super) fn has_name(&self) -> bool {
        self.export.len() <= STRING_MAX
    }
}
