use super::budget::Budget;
use super::low_water::LowWater;
use onego_buf::List;
use onego_wire::{ConnId, Landing};
use std::io;

/// Life cycle of a connection in the pump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Open,
    /// A watched descriptor: neither receives nor sends.
    Watched,
    /// The machine has closed it; its remaining bytes are being sent.
    Flushing,
    /// All bytes are sent and this side is shut down. Further bytes of the peer are discarded until it closes, too:
    /// closing with unread bytes would reset the connection, and a reset destroys bytes that the peer has not read yet.
    Draining,
    /// To be closed once the engine has returned the receive buffers.
    Doomed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecvState {
    Idle,
    Ready,
    Submitted,
    /// A receive into the engine's own memory waits in the engine.
    Provided,
}

#[derive(Debug)]
pub(super) enum SendState {
    Ready,
    Full,
    Submitted,
    /// Sending failed. Earlier bytes of the peer are still received.
    Failed(io::Error),
}

pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) phase: Phase,
    pub(super) recv: RecvState,
    pub(super) send: SendState,
    /// Bytes received in an uninterrupted run that has not drained the socket.
    pub(super) run: usize,
    /// Destination of the next bytes, if the machine was already asked and nothing arrived.
    pub(super) held: Option<Landing>,
    pub(super) low_water: LowWater,
    pub(super) budget: Budget,
    pub(super) out: List,
    /// The peer has ended its direction; the machine still sends.
    pub(super) half_closed: bool,
    pub(super) queued_receive: bool,
    pub(super) queued_send: bool,
}

impl Conn {
    pub(super) fn new(id: ConnId, phase: Phase) -> Self {
        Self {
            id,
            phase,
            recv: RecvState::Idle,
            send: SendState::Ready,
            run: 0,
            held: None,
            low_water: LowWater::default(),
            budget: Budget::default(),
            out: List::new(),
            half_closed: false,
            queued_receive: false,
            queued_send: false,
        }
    }

    pub(super) fn set_readable(&mut self) {
        if self.recv == RecvState::Idle {
            self.recv = RecvState::Ready;
        }
    }

    pub(super) fn is_receiving(&self) -> bool {
        matches!(self.recv, RecvState::Submitted | RecvState::Provided)
    }
}
