//! Why a connection cannot go on.

use super::violation::{Code, Violation};
use std::time::Duration;
use thiserror::Error;

/// Whose fault an [`enum@Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The peer does not keep to the protocol.
    Peer,
    /// The peer keeps to the protocol, but the two sides cannot do what each other asks.
    Mismatch,
    /// The peer says that this side did something wrong.
    Here,
    /// What lies between: bytes were damaged, or nothing comes any more.
    Transport,
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// The first bytes are no frame of MPA.
    #[error("the peer does not speak iWARP: its first bytes are no MPA frame")]
    NotMpa,
    /// More private data than the protocol allows.
    #[error("the peer sent {0} bytes of private data, the bound is 512")]
    PrivateDataTooLong(u16),
    /// An enhanced frame without IRD and ORD.
    #[error("the peer's enhanced MPA frame has {0} bytes of private data, which is too few for IRD and ORD")]
    NoDepths(u16),
    /// The initiator sent more before it was answered.
    #[error("the peer did not wait for the MPA Reply")]
    Impatient,
    /// A segment that breaks the rules. The peer was told in a Terminate message.
    #[error("the peer broke the protocol: {0}")]
    Violation(#[from] Violation),

    /// The peer wants markers in the stream.
    #[error("the peer wants markers, which this side does not put in: turn them off there")]
    Markers,
    /// The peer speaks another revision of MPA.
    #[error("the peer speaks MPA revision {theirs}, this side was told to speak {ours}: configure that one")]
    Revision {
        /// What this side speaks.
        ours: u8,
        /// What the peer speaks.
        theirs: u8,
    },
    /// The peer is not answered as many RDMA Reads as it wants to have under way.
    #[error("the peer wants {theirs} RDMA Reads at a time, this side answers {ours}: configure a larger IRD")]
    InsufficientIrd {
        /// What this side answers.
        ours: u16,
        /// What the peer wants.
        theirs: u16,
    },
    /// No way for the initiator to say that it is ready that both sides know.
    #[error("the two sides know no common way to begin a peer-to-peer connection")]
    NoReadyToReceive,
    /// The peer's user refused the connection.
    #[error("the peer refused the connection")]
    Rejected,
    /// The peer sent a Terminate message.
    #[error("the peer ended the connection: {0}")]
    Terminated(Code),

    /// Bytes were damaged on their way. The peer was told.
    #[error("the checksum of a segment is wrong")]
    Corrupt,
    /// The connection was not established in time.
    #[error("the connection was not established after {0:?}")]
    HandshakeTimeout(Duration),
}

impl Error {
    /// Whose fault it is.
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

    /// What the peer is told in a Terminate message, if it is told by one.
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
