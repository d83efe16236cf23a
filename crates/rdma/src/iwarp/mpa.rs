//! Frames that open a connection: MPA Request and MPA Reply (RFC 5044, section 7.1; RFC 6581, section 9).

use super::error::Error;

pub(super) const FRAME_LEN: usize = 20;

pub(super) const ENHANCED_LEN: usize = 4;

/// Maximum length of a frame's private data, including IRD and ORD of an enhanced frame (RFC 5044, section 7.1.1).
pub(super) const PRIVATE_DATA_MAX: usize = 512;

const KEY_LEN: usize = 16;
const REQUEST_KEY: &[u8; KEY_LEN] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8; KEY_LEN] = b"MPA ID Rep Frame";

const MARKERS: u16 = 0x8000;
const CRC: u16 = 0x4000;
const REJECTED: u16 = 0x2000;
const ENHANCED: u16 = 0x1000;
const REVISION: u16 = 0x00ff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Reply,
}

impl Kind {
    fn key(self) -> &'static [u8; KEY_LEN] {
        match self {
            Self::Request => REQUEST_KEY,
            Self::Reply => REPLY_KEY,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Frame {
    pub(super) markers: bool,
    pub(super) crc: bool,
    pub(super) rejected: bool,
    pub(super) enhanced: bool,
    pub(super) revision: u8,
    pub(super) private_len: u16,
}

impl Frame {
    pub(super) fn parse(kind: Kind, bytes: &[u8; FRAME_LEN]) -> Result<Self, Error> {
        let [key @ .., flags, revision, high, low] = bytes;
        if key != kind.key() {
            return Err(Error::NotMpa);
        }
        let bits = u16::from_be_bytes([*flags, *revision]);
        let private_len = u16::from_be_bytes([*high, *low]);
        if usize::from(private_len) > PRIVATE_DATA_MAX {
            return Err(Error::PrivateDataTooLong(private_len));
        }
        Ok(Self {
            markers: bits & MARKERS != 0,
            crc: bits & CRC != 0,
            rejected: bits & REJECTED != 0,
            enhanced: bits & ENHANCED != 0,
            revision: (bits & REVISION) as u8,
            private_len,
        })
    }

    pub(super) fn to_bytes(self, kind: Kind) -> [u8; FRAME_LEN] {
        let mut bits = u16::from(self.revision);
        let flags =
            [(self.markers, MARKERS), (self.crc, CRC), (self.rejected, REJECTED), (self.enhanced, ENHANCED)];
        for (set, bit) in flags {
            bits |= if set { bit } else { 0 };
        }
        let mut bytes = [0; FRAME_LEN];
        bytes[..KEY_LEN].copy_from_slice(kind.key());
        bytes[KEY_LEN..KEY_LEN + 2].copy_from_slice(&bits.to_be_bytes());
        bytes[KEY_LEN + 2..].copy_from_slice(&self.private_len.to_be_bytes());
        bytes
    }
}

/// Ready-to-receive indications of the initiator; the responder sends nothing before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadyToReceive {
    /// A zero-length RDMA Write.
    pub write: bool,
    /// A zero-length RDMA Read.
    pub read: bool,
    /// A zero-length message, which is hidden from the other side's user.
    pub send: bool,
}

impl ReadyToReceive {
    /// Any of them.
    pub const ANY: Self = Self { write: true, read: true, send: true };

    pub(super) fn common(self, other: Self) -> Self {
        Self {
            write: self.write && other.write,
            read: self.read && other.read,
            send: self.send && other.send,
        }
    }

    /// Selects one of them: siw, for example, rejects a reply with several.
    pub(super) fn one(self) -> Self {
        let read = self.read && !self.write;
        Self { write: self.write, read, send: self.send && !self.write && !self.read }
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// IRD or ORD of all ones in 14 bits: not negotiated (RFC 6581, section 9.1).
pub(super) const NOT_NEGOTIATED: u16 = 0x3fff;

const PEER_TO_PEER: u16 = 0x8000;
const SEND_RTR: u16 = 0x4000;
const WRITE_RTR: u16 = 0x8000;
const READ_RTR: u16 = 0x4000;

/// Start of an enhanced frame's private data (RFC 6581, section 9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Depths {
    pub(super) ird: u16,
    pub(super) ord: u16,
    pub(super) peer_to_peer: Option<ReadyToReceive>,
}

impl Depths {
    pub(super) fn parse(bytes: [u8; ENHANCED_LEN]) -> Self {
        let [a, b, c, d] = bytes;
        let (ird, ord) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let ready = ReadyToReceive {
            write: ord & WRITE_RTR != 0,
            read: ord & READ_RTR != 0,
            send: ird & SEND_RTR != 0,
        };
        Self {
            ird: ird & NOT_NEGOTIATED,
            ord: ord & NOT_NEGOTIATED,
            peer_to_peer: (ird & PEER_TO_PEER != 0).then_some(ready),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; ENHANCED_LEN] {
        let (mut ird, mut ord) = (self.ird.min(NOT_NEGOTIATED), self.ord.min(NOT_NEGOTIATED));
        if let Some(ready) = self.peer_to_peer {
            ird |= PEER_TO_PEER | if ready.send { SEND_RTR } else { 0 };
            ord |= if ready.write { WRITE_RTR } else { 0 } | if ready.read { READ_RTR } else { 0 };
        }
        let ([a, b], [c, d]) = (ird.to_be_bytes(), ord.to_be_bytes());
        [a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8; 24] = b"MPA ID Req Frame\x10\x02\x00\x0c\x00\x80\x00\x00";
    const REPLY: &[u8; 24] = b"MPA ID Rep Frame\x10\x02\x00\x0c\x00\x00\x00\x80";

    fn check(kind: Kind, bytes: &[u8; 24], depths: Depths) {
        let (fixed, enhanced) = bytes.split_first_chunk::<FRAME_LEN>().unwrap();
        let frame = Frame::parse(kind, fixed).unwrap();
        let expected = Frame { enhanced: true, revision: 2, private_len: 12, ..Frame::default() };
        assert_eq!((frame, frame.to_bytes(kind)), (expected, *fixed));
        let enhanced: [u8; ENHANCED_LEN] = enhanced.try_into().unwrap();
        assert_eq!((Depths::parse(enhanced), depths.to_bytes()), (depths, enhanced));
    }

    #[test]
    fn the_kernels_frames_are_read_and_written() {
        check(Kind::Request, REQUEST, Depths { ird: 128, ord: 0, peer_to_peer: None });
        check(Kind::Reply, REPLY, Depths { ird: 0, ord: 128, peer_to_peer: None });
    }

    #[test]
    fn a_reply_is_not_a_request() {
        let reply = REPLY.first_chunk().unwrap();
        assert_eq!(Frame::parse(Kind::Request, reply), Err(Error::NotMpa));
    }

    #[test]
    fn too_much_private_data_is_refused_before_it_comes() {
        let frame = Frame { revision: 1, private_len: 513, ..Frame::default() };
        let parsed = Frame::parse(Kind::Request, &frame.to_bytes(Kind::Request));
        assert_eq!(parsed, Err(Error::PrivateDataTooLong(513)));
    }

    #[test]
    fn every_flag_has_its_bit() {
        let frame =
            Frame { markers: true, crc: true, rejected: true, enhanced: true, revision: 2, private_len: 4 };
        let bytes = frame.to_bytes(Kind::Reply);
        assert_eq!(bytes[16..], [0xf0, 2, 0, 4]);
        assert_eq!(Frame::parse(Kind::Reply, &bytes), Ok(frame));
        for (ready, bytes) in [
            (ReadyToReceive { write: true, ..Default::default() }, [0x80, 1, 0x80, 2]),
            (ReadyToReceive { read: true, ..Default::default() }, [0x80, 1, 0x40, 2]),
            (ReadyToReceive { send: true, ..Default::default() }, [0xc0, 1, 0, 2]),
        ] {
            let depths = Depths { ird: 1, ord: 2, peer_to_peer: Some(ready) };
            assert_eq!((depths.to_bytes(), Depths::parse(bytes)), (bytes, depths));
        }
    }
}
