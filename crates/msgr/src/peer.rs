//! The two ends of a connection.

use crate::auth::{AuthName, Caps, Granted, Login, Reception, Renewals};
use crate::compression::Method;
use crate::config::Config;
use crate::types::EntityName;
use crate::types::addr::{AddrKind, AddrVec, EntityAddr};
use std::net::SocketAddr;

/// Whom a client connects to.
#[derive(Debug, Clone)]
pub struct Target {
    /// The kind that it must be, one of [`EntityName`]'s constants.
    pub kind: u8,
    /// Its address.
    pub addr: EntityAddr,
    /// How the client is to be known there.
    pub login: Login,
}

impl Target {
    /// Is version 1 spoken at its address?
    pub(crate) fn is_legacy(&self) -> bool {
        self.addr.kind == AddrKind::Legacy
    }
}

/// A client that connected to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor {
    /// The address that the connection comes from.
    pub addr: SocketAddr,
    /// The global id to give to the client if it wants one: on a monitor, a number that no client had before.
    pub fresh_global_id: u64,
}

/// What is known of the peer once messages may flow.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its name.
    pub name: EntityName,
    /// The name that a client gave to the authentication; none of a server.
    pub auth_name: Option<AuthName>,
    /// What a client may do.
    pub caps: Caps,
    /// How a monitor's client gets new tickets, if tickets are given.
    pub renewals: Option<Renewals>,
    /// The tickets that a monitor gave to this side.
    pub granted: Option<Granted>,
    /// Is the connection encrypted?
    pub secure: bool,
    /// How frames are compressed, if they are.
    pub compression: Option<Method>,
    /// Its addresses.
    pub addrs: AddrVec,
    /// Features that both sides have.
    pub features: u64,
    /// The client's global id: this side's on a client, the peer's on a server.
    pub global_id: u64,
    /// The addresses that this side gave itself.
    pub own_addrs: AddrVec,
}

/// Which end this is, for as long as the handshake lasts.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for a connection, and only until messages flow")]
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

/// The addresses of this side of a connection that has the address `local` here.
///
/// Nobody connects to a client: its address is its IP address and its nonce, of no particular protocol, as librados
/// and the kernel have it. Locks and blocklists name clients so.
pub(crate) fn own_addrs(config: &Config, local: SocketAddr) -> AddrVec {
    if !config.addrs.0.is_empty() {
        return config.addrs.clone();
    }
    let sock = Some(SocketAddr::new(local.ip(), 0));
    AddrVec(vec![EntityAddr { kind: AddrKind::Any, nonce: config.nonce, sock }])
}
