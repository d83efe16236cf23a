//! Errors that end a connection.

use crate::auth;
use crate::compression::Method;
use crate::tag::Tag;
use crate::types::addr::{AddrVec, EntityAddr};
use onego_wire::DecodeError;
use std::time::Duration;
use thiserror::Error;

/// Party responsible for an [`enum@Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The peer violates the protocol.
    Peer,
    /// The peer follows the protocol, but the two sides' requirements are incompatible.
    Mismatch,
    /// The path between both: bytes were corrupted or stopped arriving.
    Transport,
}

/// Error that ends a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The peer's first bytes are not the msgr2 banner.
    #[error("the peer does not speak Ceph's messenger protocol 2")]
    NotMsgr2,
    /// The peer's first bytes are not the version 1 banner.
    #[error("the peer does not speak Ceph's messenger protocol 1")]
    NotMsgr1,
    /// Control frame or message not allowed in the state of the connection.
    #[error("the peer sent {tag:?} while this side was {state}")]
    Unexpected {
        /// Kind of the frame.
        tag: Tag,
        /// State of this side.
        state: &'static str,
    },
    /// Tag unknown in the negotiated protocol version.
    #[error("the peer sent a frame of unknown kind {0}")]
    UnknownTag(u8),
    /// Malformed frame.
    #[error("the peer sent a frame with {0}")]
    BadFrame(&'static str),
    /// Length above its limit.
    #[error("the peer sent a {what} of {len} bytes, the limit is {bound}")]
    TooLong {
        /// Part that is too long.
        what: &'static str,
        /// Its length.
        len: u64,
        /// The limit.
        bound: u64,
    },
    /// Frame content that cannot be decoded.
    #[error("the peer sent a frame that cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    /// Message with a sequence number not above its predecessor's.
    #[error("the peer sent message {seq} after message {last}")]
    OldMessage {
        /// Number of the message.
        seq: u64,
        /// Number of its predecessor.
        last: u64,
    },
    /// Acknowledgement of a message that was never sent.
    #[error("the peer acknowledged message {seq}, but {last} was the last message sent")]
    NeverSent {
        /// Acknowledged number.
        seq: u64,
        /// Number of the last message sent.
        last: u64,
    },
    /// Wrong signature over the handshake.
    #[error("the peer's signature over the handshake is wrong")]
    BadSignature,
    /// Missing or wrong signature of a message.
    #[error("the signature of a message is wrong")]
    BadMessageSignature,
    /// Compression method that this side did not offer.
    #[error("the peer chose compression method {0}, which was not offered")]
    CompressionMethod(u32),
    /// Frame marked as compressed without negotiated compression.
    #[error("the peer sent a compressed frame, but compression was not negotiated")]
    NotAgreed,
    /// Compressed data that cannot be decompressed.
    #[error("the peer sent {what} that cannot be decompressed: {reason}")]
    Compressed {
        /// Part that was compressed.
        what: &'static str,
        /// Reason for the failure.
        reason: &'static str,
    },
    /// Handshake with more frames than any legitimate one.
    #[error("the handshake did not end within {0} frames")]
    EndlessHandshake(u32),

    /// The peer speaks version 1 of the protocol.
    #[error("the peer speaks version 1 of Ceph's messenger protocol: use its port for version 2")]
    Msgr1,
    /// The peer speaks version 2 of the protocol.
    #[error("the peer speaks version 2 of Ceph's messenger protocol: use its port for version 1")]
    Msgr2,
    /// The versions of the protocol between these kinds of peers differ.
    #[error("the peer speaks version {theirs} of the protocol for its kind, this side speaks {ours}")]
    ProtocolVersion {
        /// Version of this side.
        ours: u32,
        /// Version of the peer.
        theirs: u32,
    },
    /// Incompatible feature bits in the banner.
    #[error(
        "incompatible messenger features: this side lacks {lacked_here:#x}, the peer lacks {lacked_there:#x}"
    )]
    MessengerFeatures {
        /// Features that the peer requires and this side lacks.
        lacked_here: u64,
        /// Features that this side requires and the peer lacks.
        lacked_there: u64,
    },
    /// Incompatible feature bits in the identification.
    #[error("incompatible features: this side lacks {lacked_here:#x}, the peer lacks {lacked_there:#x}")]
    Features {
        /// Features that the peer requires and this side lacks.
        lacked_here: u64,
        /// Features that this side requires and the peer lacks.
        lacked_there: u64,
    },
    /// Authentication failure on either side.
    #[error(transparent)]
    Auth(#[from] auth::Error),
    /// Unexpected kind of peer.
    #[error("the peer is of kind {found:#x} instead of {expected:#x}")]
    WrongKind {
        /// Expected kind.
        expected: u8,
        /// Actual kind.
        found: u8,
    },
    /// The server is not at the intended address: it is another server or another instance of it.
    #[error("connected to {found} instead of {wanted}")]
    WrongPeer {
        /// Address that the client wanted to reach.
        wanted: EntityAddr,
        /// Addresses of the server.
        found: AddrVec,
    },
    /// Both sides are connecting, and the peer wants its own connection to be used.
    #[error("the peer asks to wait for its own connection")]
    Wait,

    /// Out of memory for the compressor.
    #[error("out of memory for {0} compression")]
    NoMemory(Method),

    /// The peer ended the session in order.
    #[error("the peer closed the session")]
    Closed,
    /// Corrupted bytes.
    #[error("the checksum of {0} is wrong")]
    Corrupt(&'static str),
    /// Encrypted frame with a wrong authentication tag.
    #[error("{0} was modified in transit or not sent by the peer: its authentication tag is wrong")]
    Tampered(&'static str),
    /// The handshake timed out.
    #[error("the handshake was not complete after {0:?}")]
    HandshakeTimeout(Duration),
    /// The peer did not answer a keepalive.
    #[error("the peer did not answer a keepalive within {0:?}")]
    Silent(Duration),
}

impl Error {
    /// Returns the responsible party.
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
