//! A host, and its sockets.

use super::stream::Stream;
use onego_engine::{Event, Sleeper, SocketId, SocketTable};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

pub(super) enum Socket {
    Listener(SocketAddr),
    Stream(Box<Stream>),
}

pub(super) struct Host {
    pub(super) running: bool,
    pub(super) sockets: SocketTable<Socket>,
    pub(super) listeners: BTreeMap<SocketAddr, SocketId>,
    pub(super) ready: VecDeque<Event>,
    /// The engine has operations to complete.
    pub(super) busy: bool,
    pub(super) sleeper: Sleeper,
    pub(super) next_port: u16,
    pub(super) next_reserved: u16,
}
