use super::tls::ClientTls;
use crate::codec::STRING_MAX;
use onego_buf::Pool;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Most connections of one client: more bring nothing, and servers count them.
pub(super) const CONNECTIONS_MAX: usize = 16;

/// Where a server is.
pub enum Endpoint {
    /// At one of these addresses, which are tried in turn.
    Tcp(Vec<SocketAddr>),
    /// A function connects a socket, of whatever family, and does not block.
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

/// What a client is told to be.
#[derive(Debug, Clone)]
pub struct Config {
    /// The export, by its name; the empty name is that of the default.
    pub export: String,
    /// The connections are sealed by TLS. `None`: they are in the clear.
    pub tls: Option<ClientTls>,
    /// Connections, from 1 to 16. More than one are opened only if a flush on one covers the writes on the others.
    pub connections: usize,
    /// How long a request waits for a server that is away or does not answer, before it fails.
    pub patience: Duration,
    /// Any number that differs between clients: it spreads their attempts to connect.
    pub seed: u64,
    /// Gives memory for reads and headers.
    pub pool: Pool,
}

impl Config {
    /// One connection to the export of that name, and a minute of patience.
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

    /// Is the name one that can be sent?
    pub(super) fn has_name(&self) -> bool {
        self.export.len() <= STRING_MAX
    }
}
