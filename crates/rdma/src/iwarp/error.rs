//! Errors that end a connection.

use super::violation::{Code, Violation};
use std::time::Duration;
use thiserror::Error;

/// Party responsible for an [`enum@Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The peer violates the protocol.
    Peer,
    /// The peer follows the protocol, but the two sides have no common parameters.
    Mismatch,
    /// The peer reports an error of this side.
    Here,
    /// The transport: bytes were damaged, or no more arrive.
    Transport,
}

/// Error that ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// The first bytes are not an MPA frame.
    #[error("the peer does not speak iWARP: its first bytes are no MPA frame")]
    NotMpa,
    /// More private data than the protocol allows.
    #[error("the peer sent {0} bytes of private data, the bound is 512")]
    PrivateDataTooLong(u16),
    /// An enhanced frame without IRD and ORD.
    #[error("the peer's enhanced MPA frame has {0} bytes of private data, which is too few for IRD and ORD")]
    NoDepths(u16),
    /// The initiator sent more bytes before the reply.
    #[error("the peer did not wait for the MPA Reply")]
    Impatient,
    /// A segment violates the protocol. A Terminate message informed the peer.
    #[error("the peer broke the protocol: {0}")]
    Violation(#[from] Violation),

    /// The peer requires markers in the stream.
    #[error("the peer requires markers, which this side does not support: disable them there")]
    Markers,
    /// The peer uses another revision of MPA.
    #[error("the peer speaks MPA revision {theirs}, this side {ours}: configure the same revision")]
    Revision {
        /// Revision of this side.
        ours: u8,
        /// Revision of the peer.
        theirs: u8,
    },
    /// The peer requires more RDMA Reads in flight than this side answers.
    #[error("the peer wants {theirs} RDMA Reads at a time, this side answers {ours}: configure a larger IRD")]
    InsufficientIrd {
        /// Reads that this side answers.
        ours: u16,
        /// Reads that the peer requires.
        theirs: u16,
    },
    /// The sides support no common ready-to-receive indication.
    #[error("the two sides support no common way to begin a peer-to-peer connection")]
    NoReadyToReceive,
    /// The peer's user rejected the connection.
    #[error("the peer refused the connection")]
    Rejected,
    /// The peer sent a Terminate message.
    #[error("the peer ended the connection: {0}")]
    Terminated(Code),

    /// Bytes were damaged in transit. A Terminate message informed the peer.
    #[error("the checksum of a segment is wrong")]
    Corrupt,
    /// The connection was not established in time.
    #[error("the connection was not established after {0:?}")]
    HandshakeTimeout(Duration),
}

impl Error {
    /// Returns the responsible party.
    pub fn blame(&self) -> Blame {
        match self {
            Self::NotMpa
            | Self::PrivateDataTooLong(_)
            | Self::NoDepths(_)
            | Self::Impatient
            | Self::Violation(_) => Blame::Peer,
            Self::Markers
            | Self::Revision { .. }
            | Self::InsufficientIrd { .. }
            | Self::NoReadyToReceive
            | Self::Rejected => Blame::Mismatch,
            Self::Terminated(_) => Blame::Here,
            Self::Corrupt | Self::HandshakeTimeout(_) => Blame::Transport,
        }
    }

    /// Returns the code of the Terminate message for the peer, if one is sent.
    pub(super) fn code(&self) -> Option<Code> {
        match self {
            Self::Violation(violation) => Some(violation.code()),
            Self::Corrupt => Some(Code::CRC),
            Self::InsufficientIrd { .. } => Some(Code::INSUFFICIENT_IRD),
            Self::NoReadyToReceive => Some(Code::NO_READY_TO_RECEIVE),
            _ => None,
        }
    }
}
