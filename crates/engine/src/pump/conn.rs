use super::budget::Budget;
use super::low_water::LowWater;
use onego_buf::List;
use onego_wire::{ConnId, Landing};
use std::io;

/// The life of a connection in the pump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not yet open.
    Connecting,
    /// The machine uses it.
    Open,
    /// It is watched, and that is all.
    Watched,
    /// The machine has closed it; what it had to send is being sent.
    Flushing,
    /// All is sent and the peer was told. What it still sends is read and thrown away until it closes too: closing
    /// with bytes unread would reset the connection, and a reset takes away what the peer has not read yet.
    Draining,
    /// To be closed as soon as the engine has given the receive buffers back.
    Doomed,
}

/// What is received on a connection, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecvState {
    /// Nothing is there, as far as is known.
    Idle,
    /// A receive would find something.
    Ready,
    /// The engine has receive buffers of this connection.
    Submitted,
    /// A receive into the engine's own memory waits in the engine.
    Provided,
}

/// What is sent on a connection, and by whom.
#[derive(Debug)]
pub(super) enum SendState {
    /// A send would take something, as far as is known.
    Ready,
    /// A send would not take anything.
    Full,
    /// The engine has what is being sent.
    Submitted,
    /// Sending failed. What the peer sent before is still received.
    Failed(io::Error),
}

/// A connection in the pump.
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) phase: Phase,
    pub(super) recv: RecvState,
    pub(super) send: SendState,
    /// Bytes received one after the other, and there are more.
    pub(super) run: usize,
    /// Where the next bytes go, if the machine was asked already and nothing came.
    pub(super) held: Option<Landing>,
    /// Fewer bytes do not end a wait.
    pub(super) low_water: LowWater,
    /// How much is received in a turn.
    pub(super) budget: Budget,
    /// Taken from the machine and not yet sent.
    pub(super) out: List,
    /// The peer sends no more, and the machine still sends.
    pub(super) half_closed: bool,
    /// It is in the queue of those to receive on.
    pub(super) queued_receive: bool,
    /// It is in the queue of those to send on.
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

    /// Something may be there to receive. A receive that the engine has will find it.
    pub(super) fn set_readable(&mut self) {
        if self.recv == RecvState::Idle {
            self.recv = RecvState::Ready;
        }
    }

    /// Does the engine have a receive of this connection?
    pub(super) fn is_receiving(&self) -> bool {
        matches!(self.recv, RecvState::Submitted | RecvState::Provided)
    }
}
