//! Protocol violations of the peer, and the Terminate message that reports them (RFC 5040, sections 4.8 and 8; RFC
//! 5041, section 8; RFC 5044, section 8; RFC 6581, section 8).

use std::fmt;
use thiserror::Error;

/// Protocol violation by a segment of the peer. None of the segment was placed, except for [`Revoked`](Self::Revoked).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Violation {
    /// A segment that is too short for its headers, or too long for its kind.
    #[error("a segment of {0} bytes is of a wrong length for its kind")]
    Length(u16),
    /// A tagged segment with another version of DDP.
    #[error("the DDP version of a tagged segment is not 1")]
    TaggedVersion,
    /// An untagged segment with another version of DDP.
    #[error("the DDP version of an untagged segment is not 1")]
    UntaggedVersion,
    /// Another version of RDMAP.
    #[error("the RDMAP version of a segment is not 1")]
    RdmapVersion,
    /// An operation that does not exist, or not in this form.
    #[error("operation {0} does not exist, or not in this form")]
    Opcode(u8),
    /// A queue that does not exist, or not for this operation.
    #[error("queue {0} does not match the operation")]
    Queue(u32),
    /// A message out of order.
    #[error("message {found} came instead of {expected}")]
    Msn {
        /// Its number.
        found: u32,
        /// The expected number.
        expected: u32,
    },
    /// A segment out of order in its message.
    #[error("the segment at offset {found} of a message came instead of that at {expected}")]
    MessageOffset {
        /// Its offset.
        found: u32,
        /// The expected offset.
        expected: u32,
    },
    /// A message that changes its operation midway.
    #[error("a message began as operation {began} and continued as {found}")]
    Mixed {
        /// The operation of its first segment.
        began: u8,
        /// The operation of a later one.
        found: u8,
    },
    /// A message without a posted receive.
    #[error("a message came without a posted receive")]
    NoReceive,
    /// More RDMA Reads in flight than negotiated.
    #[error("more RDMA Reads are in flight than the negotiated {0}")]
    TooManyReads(u16),
    /// A message longer than its posted receive.
    #[error("a message of at least {len} bytes came for a receive of {room}")]
    MessageTooLong {
        /// Length of the message so far, in bytes.
        len: u64,
        /// Length of the receive in bytes.
        room: usize,
    },
    /// Bytes for a region that does not exist.
    #[error("bytes came for key {0:#010x}, under which nothing is registered")]
    WriteKey(u32),
    /// Bytes for a region that the peer may not write.
    #[error("bytes came for key {0:#010x}, which the peer may not write")]
    WriteAccess(u32),
    /// Bytes beyond the bounds of a region.
    #[error("bytes came for offset {offset:#x} outside the region of key {key:#010x}")]
    WriteBounds {
        /// The region.
        key: u32,
        /// Offset of the first byte.
        offset: u64,
    },
    /// Bytes beyond the offset space.
    #[error("bytes came for offset {0:#x} and exceed 2^64")]
    WriteWraps(u64),
    /// Bytes for a region that was invalidated while they arrived.
    #[error("key {0:#010x} was invalidated while bytes came for it")]
    Revoked(u32),
    /// A response without an RDMA Read in flight.
    #[error("a response to an RDMA Read came, but none is in flight")]
    Unasked,
    /// A response to another RDMA Read than the next.
    #[error("a response came for the RDMA Read into {found:#010x} instead of {expected:#010x}")]
    ResponseKey {
        /// Key of the sink in the response.
        found: u32,
        /// Key of the expected sink.
        expected: u32,
    },
    /// A response of the wrong length, or with a gap.
    #[error("a response to an RDMA Read is invalid at byte {0}")]
    ResponseBounds(u64),
    /// An RDMA Read from a region that does not exist.
    #[error("an RDMA Read requests key {0:#010x}, under which nothing is registered")]
    ReadKey(u32),
    /// An RDMA Read from a region that the peer may not read.
    #[error("an RDMA Read requests key {0:#010x}, which the peer may not read")]
    ReadAccess(u32),
    /// An RDMA Read beyond the bounds of a region.
    #[error("an RDMA Read requests {len} bytes at offset {offset:#x} outside the region of key {key:#010x}")]
    ReadBounds {
        /// The region.
        key: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// An RDMA Read beyond the offset space.
    #[error("an RDMA Read requests bytes at offset {0:#x} that exceed 2^64")]
    ReadWraps(u64),
    /// A region to invalidate that does not exist, or is in use by an RDMA Read of this side.
    #[error("the peer cannot invalidate key {0:#010x}")]
    CannotInvalidate(u32),
}

impl Violation {
    /// Returns the code that the peer receives.
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
/// RDMAP error types.
const PROTECTION: u8 = 1;
const OPERATION: u8 = 2;
/// DDP error types.
const TAGGED: u8 = 1;
const UNTAGGED: u8 = 2;

/// Content of a Terminate message: layer, type and code of an error, in IANA's registry "Remote Direct Data Placement".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code {
    /// 0 RDMAP, 1 DDP, 2 MPA.
    pub layer: u8,
    /// Error type (4 bits).
    pub kind: u8,
    /// Error code.
    pub code: u8,
}

/// Bits of the third byte of a Terminate message: length and header of the DDP segment, and the header of the RDMA
/// Read, follow.
const LENGTH_FOLLOWS: u8 = 0x80;
const DDP_FOLLOWS: u8 = 0x40;
const RDMAP_FOLLOWS: u8 = 0x20;
const FOLLOWS: u8 = LENGTH_FOLLOWS | DDP_FOLLOWS | RDMAP_FOLLOWS;
/// The same bits as sent by Linux's siw on little-endian machines, which reverses the order within each byte.
const FOLLOWS_TURNED: u8 = 0x07;

/// Length of a Terminate message before the headers of the segment in error.
pub(super) const TERMINATE_LEN: usize = 4;

impl Code {
    pub(super) const CRC: Self = Self { layer: MPA, kind: 0, code: 0x02 };
    pub(super) const INSUFFICIENT_IRD: Self = Self { layer: MPA, kind: 0, code: 0x06 };
    pub(super) const NO_READY_TO_RECEIVE: Self = Self { layer: MPA, kind: 0, code: 0x07 };

    /// Returns the fixed part of a Terminate message. `about`: headers that follow it. MPA errors have none.
    pub(super) fn to_bytes(self, about: Option<About>) -> [u8; TERMINATE_LEN] {
        let follows = match about {
            None => 0,
            Some(About::Segment) => LENGTH_FOLLOWS | DDP_FOLLOWS,
            Some(About::Read) => FOLLOWS,
        };
        [self.layer << 4 | self.kind, self.code, follows, 0]
    }

    pub(super) fn parse([first, code, follows, _]: [u8; TERMINATE_LEN]) -> Self {
        let turned = follows & FOLLOWS == 0 && follows & FOLLOWS_TURNED != 0;
        let first = if turned { first.rotate_left(4) } else { first };
        Self { layer: first >> 4, kind: first & 0xf, code }
    }

    pub(super) fn is_about_segment(self) -> bool {
        self.layer != MPA
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// A segment, whose length and DDP header follow.
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
            (DDP, UNTAGGED, 0x05) => "a message too long for the posted buffer",
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
