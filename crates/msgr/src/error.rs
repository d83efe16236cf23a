//! Why a connection cannot go on.

use crate::auth;
use crate::compression::Method;
use crate::tag::Tag;
use crate::types::addr::{AddrVec, EntityAddr};
use onego_wire::DecodeError;
use std::time::Duration;
use thiserror::Error;

/// Whose fault an [`enum@Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The peer does not keep to the protocol.
    Peer,
    /// The peer keeps to the protocol, but the two sides cannot do what each other asks.
    Mismatch,
    /// What lies between: bytes were damaged, or nothing comes any more.
    Transport,
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The peer's first bytes are not the banner of msgr2.
    #[error("the peer does not speak Ceph's messenger protocol 2")]
    NotMsgr2,
    /// The peer's first bytes are not the banner of version 1.
    #[error("the peer does not speak Ceph's messenger protocol 1")]
    NotMsgr1,
    /// A control frame, or a message, that has no place in the state of the connection.
    #[error("the peer sent {tag:?} while {state}")]
    Unexpected {
        /// The frame.
        tag: Tag,
        /// What this side is doing.
        state: &'static str,
    },
    /// A tag that no version of the protocol that was agreed on has.
    #[error("the peer sent a frame of the unknown kind {0}")]
    UnknownTag(u8),
    /// A frame whose layout breaks the rules.
    #[error("the peer sent a frame with {0}")]
    BadFrame(&'static str),
    /// A length over its bound.
    #[error("the peer sent a {what} of {len} bytes, the bound is {bound}")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length.
        len: u64,
        /// The bound.
        bound: u64,
    },
    /// A payload that cannot be decoded.
    #[error("the peer sent a frame that cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    /// A message whose number is not above the one before.
    #[error("the peer sent message {seq} after message {last}")]
    OldMessage {
        /// Number of the message.
        seq: u64,
        /// Number of the message before.
        last: u64,
    },
    /// An acknowledgement of a message that was never sent.
    #[error("the peer acknowledged message {seq}, but {last} was the last that was sent")]
    NeverSent {
        /// Number of the message.
        seq: u64,
        /// Number of the last message that was sent.
        last: u64,
    },
    /// A signature over the handshake that is not the expected one.
    #[error("the peer's signature over the handshake is wrong")]
    BadSignature,
    /// A message whose signature is missing, or not the expected one.
    #[error("the signature of a message is wrong")]
    BadMessageSignature,
    /// A method of compression that this side did not ask for.
    #[error("the peer chose method {0} of compression, which it was not asked for")]
    CompressionMethod(u32),
    /// A frame that says of itself that it is compressed, though nobody agreed to that.
    #[error("the peer sent a compressed frame, though it was not agreed to compress")]
    NotAgreed,
    /// What is compressed cannot be decompressed.
    #[error("the peer sent {what} that cannot be decompressed: {reason}")]
    Compressed {
        /// What was compressed.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More frames than any handshake takes.
    #[error("the handshake did not end within {0} frames")]
    EndlessHandshake(u32),

    /// The peer speaks version 1 of the protocol.
    #[error("the peer speaks version 1 of Ceph's messenger protocol: use its port for version 2")]
    Msgr1,
    /// The peer speaks version 2 of the protocol.
    #[error("the peer speaks version 2 of Ceph's messenger protocol: use its port for version 1")]
    Msgr2,
    /// What the two kinds of daemons and clients say to each other has another version.
    #[error("the peer speaks version {theirs} of the protocol for its kind, this side speaks {ours}")]
    ProtocolVersion {
        /// The version that this side speaks.
        ours: u32,
        /// The version that the peer speaks.
        theirs: u32,
    },
    /// Feature bits of the banner do not fit.
    #[error(
        "messenger features do not fit: this side lacks {lacked_here:#x}, the peer lacks {lacked_there:#x}"
    )]
    MessengerFeatures {
        /// Features that the peer requires and this side has not.
        lacked_here: u64,
        /// Features that this side requires and the peer has not.
        lacked_there: u64,
    },
    /// Feature bits of the identification do not fit.
    #[error("features do not fit: this side lacks {lacked_here:#x}, the peer lacks {lacked_there:#x}")]
    Features {
        /// Features that the peer requires and this side has not.
        lacked_here: u64,
        /// Features that this side requires and the peer has not.
        lacked_there: u64,
    },
    /// One of the two sides did not believe the other.
    #[error(transparent)]
    Auth(#[from] auth::Error),
    /// The peer is not of the kind that was expected.
    #[error("the peer is of kind {found:#x} instead of {expected:#x}")]
    WrongKind {
        /// The kind that was expected.
        expected: u8,
        /// The kind that it is.
        found: u8,
    },
    /// The peer is not at the address that was meant: it is another one, or another life of it.
    #[error("meant to reach {wanted}, reached {found}")]
    WrongPeer {
        /// The address that the client meant to reach.
        wanted: EntityAddr,
        /// The addresses that the server has.
        found: AddrVec,
    },
    /// The peer is connecting to this side at the same time and wants that connection to be used.
    #[error("the peer asks to wait for its own connection")]
    Wait,

    /// There is no memory for what compresses.
    #[error("there is no memory to compress by {0}")]
    NoMemory(Method),

    /// The peer ended the session in order.
    #[error("the peer closed the session")]
    Closed,
    /// Bytes were damaged on their way.
    #[error("the checksum of {0} is wrong")]
    Corrupt(&'static str),
    /// An encrypted frame is not what the peer sent.
    #[error("{0} was changed on its way, or was not sent by the peer: its authentication tag is wrong")]
    Tampered(&'static str),
    /// The handshake took too long.
    #[error("the handshake was not complete after {0:?}")]
    HandshakeTimeout(Duration),
    /// The peer does not answer.
    #[error("the peer did not answer a keepalive within {0:?}")]
    Silent(Duration),
}

impl Error {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::NotMsgr2
            | Self::NotMsgr1
            | Self::Unexpected { .. }
            | Self::UnknownTag(_)
            | Self::BadFrame(_)
            | Self::TooLong { .. }
            | Self::Decode(_)
            | Self::OldMessage { .. }
            | Self::NeverSent { .. }
            | Self::BadSignature
            | Self::BadMessageSignature
            | Self::CompressionMethod(_)
            | Self::NotAgreed
            | Self::Compressed { .. }
            | Self::EndlessHandshake(_) => Blame::Peer,
            Self::Msgr1
            | Self::Msgr2
            | Self::ProtocolVersion { .. }
            | Self::MessengerFeatures { .. }
            | Self::Features { .. }
            | Self::Auth(_)
            | Self::WrongKind { .. }
            | Self::WrongPeer { .. }
            | Self::NoMemory(_)
            | Self::Wait => Blame::Mismatch,
            Self::Closed
            | Self::Corrupt(_)
            | Self::Tampered(_)
            | Self::HandshakeTimeout(_)
            | Self::Silent(_) => Blame::Transport,
        }
    }
}
