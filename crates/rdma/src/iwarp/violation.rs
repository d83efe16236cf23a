//! How a peer can break the rules, and the Terminate message that tells it (RFC 5040, sections 4.8 and 8; RFC 5041,
//! section 8; RFC 5044, section 8; RFC 6581, section 8).

use std::fmt;
use thiserror::Error;

/// A rule that a segment of the peer breaks. Nothing of the segment was placed, but for
/// [`Revoked`](Self::Revoked).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Violation {
    /// A segment that is too short for its headers, or longer than its kind can be.
    #[error("a segment of {0} bytes is of a wrong length for its kind")]
    Length(u16),
    /// Another version of DDP.
    #[error("the DDP version of a tagged segment is not 1")]
    TaggedVersion,
    /// The same in an untagged segment.
    #[error("the DDP version of an untagged segment is not 1")]
    UntaggedVersion,
    /// Another version of RDMAP.
    #[error("the RDMAP version of a segment is not 1")]
    RdmapVersion,
    /// An operation that does not exist, or not in this form.
    #[error("operation {0} does not exist, or not as it came")]
    Opcode(u8),
    /// A queue that does not exist, or not for this operation.
    #[error("queue {0} is not the one of the operation")]
    Queue(u32),
    /// A message out of turn.
    #[error("message {found} came instead of {expected}")]
    Msn {
        /// Its number.
        found: u32,
        /// The number that was next.
        expected: u32,
    },
    /// A segment out of turn in its message.
    #[error("the segment at offset {found} of a message came instead of that at {expected}")]
    MessageOffset {
        /// Its offset.
        found: u32,
        /// The offset that was next.
        expected: u32,
    },
    /// A message that changes its kind half way.
    #[error("a message began as operation {began} and went on as {found}")]
    Mixed {
        /// The operation of its first segment.
        began: u8,
        /// The operation of a later one.
        found: u8,
    },
    /// A message for which no receive is posted.
    #[error("a message came, and no receive was posted for it")]
    NoReceive,
    /// More RDMA Reads at a time than were agreed on.
    #[error("more RDMA Reads came at a time than the {0} that were agreed on")]
    TooManyReads(u16),
    /// A message longer than the receive that is posted for it.
    #[error("a message of at least {len} bytes came for a receive of {room}")]
    MessageTooLong {
        /// Bytes of the message, as far as it came.
        len: u64,
        /// Bytes of the receive.
        room: usize,
    },
    /// Bytes for a region that does not exist.
    #[error("bytes came for key {0:#010x}, under which nothing is registered")]
    WriteKey(u32),
    /// Bytes for a region that is not to be written.
    #[error("bytes came for key {0:#010x}, which is not to be written by the peer")]
    WriteAccess(u32),
    /// Bytes beyond the bounds of a region.
    #[error("bytes came for offset {offset:#x} and on, which is outside of the region of key {key:#010x}")]
    WriteBounds {
        /// The region.
        key: u32,
        /// Offset of the first byte.
        offset: u64,
    },
    /// Bytes beyond the last offset there is.
    #[error("bytes came for offset {0:#x} and on, beyond the last offset there is")]
    WriteWraps(u64),
    /// Bytes for a region that was invalidated while they came.
    #[error("bytes came for key {0:#010x} while its memory was taken back")]
    Revoked(u32),
    /// An answer to an RDMA Read that nobody waits for.
    #[error("an answer to an RDMA Read came, and none is under way")]
    Unasked,
    /// An answer to another RDMA Read than the one that is next.
    #[error("an answer came for the RDMA Read into {found:#010x} instead of {expected:#010x}")]
    ResponseKey {
        /// Key of the sink in the answer.
        found: u32,
        /// Key of the sink that was asked for.
        expected: u32,
    },
    /// An answer that is not as long as what was asked for, or leaves something out.
    #[error("an answer to an RDMA Read went wrong at byte {0}")]
    ResponseBounds(u64),
    /// An RDMA Read from a region that does not exist.
    #[error("an RDMA Read asks for key {0:#010x}, under which nothing is registered")]
    ReadKey(u32),
    /// An RDMA Read from a region that is not to be read.
    #[error("an RDMA Read asks for key {0:#010x}, which is not to be read by the peer")]
    ReadAccess(u32),
    /// An RDMA Read beyond the bounds of a region.
    #[error(
        "an RDMA Read asks for {len} bytes at offset {offset:#x}, outside of the region of key {key:#010x}"
    )]
    ReadBounds {
        /// The region.
        key: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// An RDMA Read beyond the last offset there is.
    #[error("an RDMA Read asks for bytes at offset {0:#x} and on, beyond the last offset there is")]
    ReadWraps(u64),
    /// A region to invalidate that does not exist, or is in use by an RDMA Read of this side.
    #[error("the peer invalidates key {0:#010x}, which it cannot")]
    CannotInvalidate(u32),
}

impl Violation {
    /// What the peer is told.
    pub fn code(&self) -> Code {
        let (layer, kind, code) = match self {
            Self::ReadKey(_) => (RDMAP, PROTECTION, 0x00),
            Self::ReadBounds { .. } => (RDMAP, PROTECTION, 0x01),
            Self::ReadAccess(_) | Self::WriteAccess(_) => (RDMAP, PROTECTION, 0x02),
            Self::ReadWraps(_) => (RDMAP, PROTECTION, 0x04),
            Self::CannotInvalidate(_) => (RDMAP, PROTECTION, 0x09),
            Self::RdmapVersion => (RDMAP, OPERATION, 0x05),
            Self::Opcode(_) | Self::Unasked => (RDMAP, OPERATION, 0x06),
            Self::Mixed { .. } => (RDMAP, OPERATION, 0x07),
            Self::Length(_) => (RDMAP, OPERATION, 0xff),
            Self::WriteKey(_) | Self::ResponseKey { .. } | Self::Revoked(_) => (DDP, TAGGED, 0x00),
            Self::WriteBounds { .. } | Self::ResponseBounds(_) => (DDP, TAGGED, 0x01),
            Self::WriteWraps(_) => (DDP, TAGGED, 0x03),
            Self::TaggedVersion => (DDP, TAGGED, 0x04),
            Self::Queue(_) => (DDP, UNTAGGED, 0x01),
            Self::NoReceive | Self::TooManyReads(_) => (DDP, UNTAGGED, 0x02),
            Self::Msn { .. } => (DDP, UNTAGGED, 0x03),
            Self::MessageOffset { .. } => (DDP, UNTAGGED, 0x04),
            Self::MessageTooLong { .. } => (DDP, UNTAGGED, 0x05),
            Self::UntaggedVersion => (DDP, UNTAGGED, 0x06),
        };
        Code { layer, kind, code }
    }
}

const RDMAP: u8 = 0;
const DDP: u8 = 1;
const MPA: u8 = 2;
/// Types of errors of RDMAP.
const PROTECTION: u8 = 1;
const OPERATION: u8 = 2;
/// Types of errors of DDP.
const TAGGED: u8 = 1;
const UNTAGGED: u8 = 2;

/// What a Terminate message says: layer, type and code of an error, in IANA's registry "Remote Direct Data Placement".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// Type of the error, of 4 bits.
    pub kind: u8,
    /// The error.
    pub code: u8,
}

/// Bits of the third byte of a Terminate message: length and header of the DDP segment, and the header of the RDMA
/// Read follow.
const LENGTH_FOLLOWS: u8 = 0x80;
const DDP_FOLLOWS: u8 = 0x40;
const RDMAP_FOLLOWS: u8 = 0x20;
const FOLLOWS: u8 = LENGTH_FOLLOWS | DDP_FOLLOWS | RDMAP_FOLLOWS;
/// The same bits as Linux's siw has them on little-endian machines, where it turns each byte round.
const FOLLOWS_TURNED: u8 = 0x07;

/// Bytes of a Terminate message before the headers of what it is about.
pub(super) const TERMINATE_LEN: usize = 4;

impl Code {
    pub(super) const CRC: Self = Self { layer: MPA, kind: 0, code: 0x02 };
    pub(super) const INSUFFICIENT_IRD: Self = Self { layer: MPA, kind: 0, code: 0x06 };
    pub(super) const NO_READY_TO_RECEIVE: Self = Self { layer: MPA, kind: 0, code: 0x07 };

    /// The fixed part of a Terminate message. `about`: bytes of the header of the segment that it is about, which
    /// follow it. Errors of MPA are about no segment.
    pub(super) fn to_bytes(self, about: Option<About>) -> [u8; TERMINATE_LEN] {
        let follows = match about {
            None => 0,
            Some(About::Segment) => LENGTH_FOLLOWS | DDP_FOLLOWS,
            Some(About::Read) => FOLLOWS,
        };
        [self.layer << 4 | self.kind, self.code, follows, 0]
    }

    /// Reads the fixed part of a Terminate message.
    pub(super) fn parse([first, code, follows, _]: [u8; TERMINATE_LEN]) -> Self {
        let turned = follows & FOLLOWS == 0 && follows & FOLLOWS_TURNED != 0;
        let first = if turned { first.rotate_left(4) } else { first };
        Self { layer: first >> 4, kind: first & 0xf, code }
    }

    /// Is it about a segment, whose header follows?
    pub(super) fn is_about_segment(self) -> bool {
        self.layer != MPA
    }
}

/// What a Terminate message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// A segment, of which length and DDP header follow.
    Segment,
    /// An RDMA Read Request, whose RDMAP header follows as well.
    Read,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.layer, self.kind, self.code) {
            (RDMAP, 0, _) => "RDMAP, local catastrophic error",
            (RDMAP, PROTECTION, 0x00) => "an RDMA Read of a key that is not registered there",
            (RDMAP, PROTECTION, 0x01) => "an RDMA Read outside of the region",
            (RDMAP, PROTECTION, 0x02) => "the region does not allow that access",
            (RDMAP, PROTECTION, 0x03) => "the key belongs to another connection",
            (RDMAP, PROTECTION, 0x04) => "an RDMA Read beyond the last offset",
            (RDMAP, PROTECTION | OPERATION, 0x09) => "a key that cannot be invalidated",
            (RDMAP, OPERATION, 0x05) => "invalid RDMAP version",
            (RDMAP, OPERATION, 0x06) => "unexpected operation",
            (RDMAP, OPERATION, 0x07 | 0x08) => "RDMAP, catastrophic error",
            (DDP, 0, _) => "DDP, local catastrophic error",
            (DDP, TAGGED, 0x00) => "bytes for a key that is not registered there",
            (DDP, TAGGED, 0x01) => "bytes outside of the region",
            (DDP, TAGGED, 0x02) => "bytes for a key of another connection",
            (DDP, TAGGED, 0x03) => "bytes beyond the last offset",
            (DDP, TAGGED, 0x04) | (DDP, UNTAGGED, 0x06) => "invalid DDP version",
            (DDP, UNTAGGED, 0x01) => "invalid queue number",
            (DDP, UNTAGGED, 0x02) => "no buffer was posted there for a message",
            (DDP, UNTAGGED, 0x03) => "a message number out of range",
            (DDP, UNTAGGED, 0x04) => "an invalid message offset",
            (DDP, UNTAGGED, 0x05) => "a message too long for the buffer that was posted there",
            (MPA, 0, 0x02) => "a wrong checksum",
            (MPA, 0, 0x06) => "insufficient IRD",
            (MPA, 0, 0x07) => "no common way to begin a peer-to-peer connection",
            _ => "unspecified error",
        };
        write!(f, "{what} (layer {}, type {}, code {:#04x})", self.layer, self.kind, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminate_is_read_in_both_layouts() {
        let code = Violation::NoReceive.code();
        let ours = code.to_bytes(Some(About::Segment));
        assert_eq!(ours, [0x12, 0x02, 0xc0, 0]);
        assert_eq!(Code::parse(ours), code);
        assert_eq!(Code::parse([0x21, 0x02, 0x03, 0]), code);
        let crc = Code::CRC.to_bytes(None);
        assert_eq!((crc, Code::parse(crc)), ([0x20, 0x02, 0, 0], Code::CRC));
    }
}
