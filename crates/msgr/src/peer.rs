//! The two ends of a connection.

use crate::auth::{AuthName, Caps, Granted, Login, Reception, Renewals};
use crate::compression::Method;
use crate::config::Config;
use crate::types::EntityName;
use crate::types::addr::{AddrKind, AddrVec, EntityAddr};
use std::net::SocketAddr;

/// Server that a client connects to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Expected kind, one of [`EntityName`]'s constants.
    pub kind: u8,
    /// Address of the server.
    pub addr: EntityAddr,
    /// The client's authentication.
    pub login: Login,
}

impl Target {
    pub(crate) fn is_legacy(&self) -> bool {
        self.addr.kind == AddrKind::Legacy
    }
}

/// Client that connected to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor {
    /// Address that the connection comes from.
    pub addr: SocketAddr,
    /// Global id for a client that requests one: on a monitor, a number never assigned before.
    pub fresh_global_id: u64,
}

/// Peer of a connection whose handshake is complete.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Entity name.
    pub name: EntityName,
    /// Name that a client authenticated with; `None` for a server.
    pub auth_name: Option<AuthName>,
    /// Capabilities of a client.
    pub caps: Caps,
    /// Ticket renewal for a monitor's client, if tickets are issued.
    pub renewals: Option<Renewals>,
    /// Tickets that a monitor granted to this side.
    pub granted: Option<Granted>,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// Compression method of frames, if any.
    pub compression: Option<Method>,
    /// Addresses.
    pub addrs: AddrVec,
    /// Features that both sides have.
    pub features: u64,
    /// The client's global id: this side's on a client, the peer's on a server.
    pub global_id: u64,
    /// Addresses that this side announced.
    pub own_addrs: AddrVec,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one per connection, and only during the handshake")]
pub(crate) enum Role {
    Client(Target),
    Server(Visitor, Reception),
}

impl Role {
    pub(crate) fn server(config: &Config, visitor: Visitor) -> Self {
        let to_monitor = config.entity.kind == EntityName::MON;
        let reception = Reception::new(config.gate.clone(), to_monitor, visitor.fresh_global_id);
        Self::Server(visitor, reception)
    }
}

/// Returns this side's addresses on a connection with local address `local`.
///
/// Clients accept no connections: as in librados and the kernel, a client's address is its IP address and its nonce,
/// without a protocol. Locks and blocklists name clients this way.
pub(crate) fn own_addrs(config: &Config, local: SocketAddr) -> AddrVec {
    if !config.addrs.0.is_empty() {
        return config.addrs.clone();
    }
    let sock = Some(SocketAddr::new(local.ip(), 0));
    AddrVec(vec![EntityAddr { kind: AddrKind::Any, nonce: config.nonce, sock }])
}
