//! What the two ends of a connection owe each other when it breaks.
//!
//! Source: ceph `src/msg/Policy.h`.

/// A policy towards one kind of peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What was on its way when a connection breaks is lost, and the session with it.
    pub lossy: bool,
    /// This side never connects: it waits for the peer to do so.
    pub server: bool,
    /// With nothing to send, this side does not connect again.
    pub standby: bool,
    /// A peer that has lost its session loses the messages of that session, too: a restarted process does not get messages
    /// that were meant for its predecessor.
    pub reset_check: bool,
}

impl Policy {
    /// A client that sends its requests again by itself: librados.
    pub const LOSSY_CLIENT: Self = Self { lossy: true, server: false, standby: false, reset_check: false };
    /// The other end of lossy clients: monitors and OSDs for clients.
    pub const STATELESS_SERVER: Self = Self { lossy: true, server: true, standby: false, reset_check: false };
    /// A client that must not lose anything: one of the file system's.
    pub const LOSSLESS_CLIENT: Self = Self { lossy: false, server: false, standby: false, reset_check: true };
    /// The other end of lossless clients.
    pub const STATEFUL_SERVER: Self = Self { lossy: false, server: true, standby: true, reset_check: true };
    /// Daemons among each other, of whom either may connect. In version 1 each life of them has to have an address of its
    /// own, as it has by its nonce: a new life that connects while the peer goes on with the old one is not noticed.
    pub const LOSSLESS_PEER: Self = Self { lossy: false, server: false, standby: true, reset_check: false };
    /// Daemons among each other, whose earlier lives have nothing to say.
    pub const LOSSLESS_PEER_REUSE: Self =
        Self { lossy: false, server: false, standby: true, reset_check: true };
}
