//! One side of a connection.

use onego_engine::SocketId;
use std::net::IpAddr;

/// One side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) host: IpAddr,
    pub(super) socket: SocketId,
}
