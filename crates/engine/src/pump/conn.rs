use super::moderate::LowWater;
use super::pace::Pace;
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

/// A connection in the pump.
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) phase: Phase,
    /// A receive would find something.
    pub(super) readable: bool,
    /// The engine has receive buffers of this connection.
    pub(super) receiving: bool,
    /// A receive into the engine's own memory waits for something to come.
    pub(super) waiting: bool,
    /// Bytes received one after the other, and there are more.
    pub(super) run: usize,
    /// Where the next bytes go, if the machine was asked already and nothing came.
    pub(super) held: Option<Landing>,
    /// From how many bytes on it is to be told of them.
    pub(super) low_water: LowWater,
    /// How much is received in a turn, unless the machine knows what is to come.
    pub(super) pace: Pace,
    /// A send would not take anything.
    pub(super) full: bool,
    /// The engine has what is being sent.
    pub(super) sending: bool,
    /// Taken from the machine and not yet sent.
    pub(super) out: List,
    /// Why sending failed. What the peer sent before is still received.
    pub(super) failed: Option<io::Error>,
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
            readable: false,
            receiving: false,
            waiting: false,
            run: 0,
            held: None,
            low_water: LowWater::default(),
            pace: Pace::default(),
            full: false,
            sending: false,
            out: List::new(),
            failed: None,
            queued_receive: false,
            queued_send: false,
        }
    }
}
