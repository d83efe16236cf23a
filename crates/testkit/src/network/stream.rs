//! One side of a stream.

use super::event::Key;
use onego_buf::List;
use onego_engine::SocketId;
use onego_wire::Time;
use std::net::SocketAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    Connecting,
    Open,
    /// Reset, by either side.
    Broken,
}

/// One side of a connection.
pub(super) struct Stream {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) state: StreamState,
    /// The socket at the other host.
    pub(super) peer: Option<SocketId>,
    /// Where it was accepted.
    pub(super) listener: Option<SocketId>,
    /// The application knows that it is open.
    pub(super) announced: bool,
    /// Arrived and not yet received.
    pub(super) inbox: List,
    /// The other side sends no more.
    pub(super) ended: bool,
    /// The application was told that there is something, and has not yet found nothing.
    pub(super) told: bool,
    /// Bytes from which on it is told (`SO_RCVLOWAT`).
    pub(super) low_water: usize,
    /// This side sends no more.
    pub(super) shut: bool,
    /// Bytes sent that the other side has not received yet.
    pub(super) under_way: usize,
    /// The application waits for room.
    pub(super) full: bool,
    /// When the last thing sent arrives: nothing sent later arrives before.
    pub(super) last_arrival: Time,
    pub(super) connect_timeout: Option<Key>,
    pub(super) end_of_life: Option<Key>,
}

impl Stream {
    pub(super) fn new(local: SocketAddr, remote: SocketAddr, state: StreamState) -> Self {
        Self {
            local,
            remote,
            state,
            peer: None,
            listener: None,
            announced: false,
            inbox: List::new(),
            ended: false,
            told: false,
            low_water: 1,
            shut: false,
            under_way: 0,
            full: false,
            last_arrival: Time::default(),
            connect_timeout: None,
            end_of_life: None,
        }
    }

    pub(super) fn has_something(&self) -> bool {
        self.has_bytes(1)
    }

    /// Are at least `bytes` bytes there, or will none come any more?
    pub(super) fn has_bytes(&self, bytes: usize) -> bool {
        self.inbox.len() >= bytes || self.ended || self.state == StreamState::Broken
    }
}
