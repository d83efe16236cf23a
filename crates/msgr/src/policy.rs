//! Delivery guarantees when a connection breaks.
//!
//! Source: ceph `src/msg/Policy.h`.

/// Policy towards one kind of peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Messages in flight when a connection breaks are lost, and the session with them.
    pub lossy: bool,
    /// This side never connects: it waits for the peer to do so.
    pub server: bool,
    /// With nothing to send, this side does not reconnect.
    pub standby: bool,
    /// A peer that has lost its session also loses that session's messages: a restarted process does not get messages
    /// meant for its predecessor.
    pub reset_check: bool,
}

impl Policy {
    /// Client that resends its requests itself: librados.
    pub const LOSSY_CLIENT: Self = Self { lossy: true, server: false, standby: false, reset_check: false };
    /// Peer of lossy clients: monitors and OSDs towards clients.
    pub const STATELESS_SERVER: Self = Self { lossy: true, server: true, standby: false, reset_check: false };
    /// Client that must not lose anything, such as one of the file system.
    pub const LOSSLESS_CLIENT: Self = Self { lossy: false, server: false, standby: false, reset_check: true };
    /// Peer of lossless clients.
    pub const STATEFUL_SERVER: Self = Self { lossy: false, server: true, standby: true, reset_check: true };
    /// Daemons among each other; either side may connect. In version 1, each instance of a daemon needs its own
    /// address, which its nonce provides: otherwise a new instance that connects while the peer resumes the old session
    /// goes unnoticed.
    pub const LOSSLESS_PEER: Self = Self { lossy: false, server: false, standby: true, reset_check: false };
    /// Daemons among each other, where messages for an earlier instance are dropped.
    pub const LOSSLESS_PEER_REUSE: Self =
        Self { lossy: false, server: false, standby: true, reset_check: true };
}
