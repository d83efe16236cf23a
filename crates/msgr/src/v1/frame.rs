//! Wire format: tags, message headers and footers.
//!
//! Source: ceph `src/include/msgr.h`; `src/msg/Message.cc` (`encode_message`, `decode_message`).
//!
//! ```text
//! tag 1 | header 53 | front | middle | data | footer 21, or 13 without room for a signature
//! ```

use crate::auth::Key;
use crate::error::Error;
use crate::message::Header;
use crate::types::EntityName;
use onego_buf::crc32c;
use onego_wire::{Decoded, Reader};

/// First byte of each frame (`CEPH_MSGR_TAG_*`).
pub(super) mod tag {
    pub(crate) const READY: u8 = 1;
    pub(crate) const RESET_SESSION: u8 = 2;
    pub(crate) const WAIT: u8 = 3;
    pub(crate) const RETRY_SESSION: u8 = 4;
    pub(crate) const RETRY_GLOBAL: u8 = 5;
    pub(crate) const CLOSE: u8 = 6;
    pub(crate) const MESSAGE: u8 = 7;
    pub(crate) const ACK: u8 = 8;
    pub(crate) const KEEPALIVE: u8 = 9;
    pub(crate) const BAD_PROTOCOL_VERSION: u8 = 10;
    pub(crate) const BAD_AUTHORIZER: u8 = 11;
    pub(crate) const FEATURES: u8 = 12;
    pub(crate) const SEQ: u8 = 13;
    pub(crate) const KEEPALIVE2: u8 = 14;
    pub(crate) const KEEPALIVE2_ACK: u8 = 15;
    pub(crate) const CHALLENGE_AUTHORIZER: u8 = 16;
}

/// Size of a header in bytes (`ceph_msg_header`).
pub(super) const HEADER_LEN: usize = 53;
/// Size of a message before its front, in bytes.
pub(super) const HEAD_LEN: usize = 1 + HEADER_LEN;
const HEADER_CRC_AT: usize = HEADER_LEN - 4;

/// Size of a footer (`ceph_msg_footer`) in bytes, and of one between peers that do not both know signatures
/// (`ceph_msg_footer_old`).
const FOOTER_LEN: usize = 21;
const OLD_FOOTER_LEN: usize = 13;
pub(super) const FOOTER_MAX: usize = FOOTER_LEN;

/// The message is complete (`CEPH_MSG_FOOTER_COMPLETE`).
const COMPLETE: u8 = 1;
/// The payload has no checksum (`CEPH_MSG_FOOTER_NOCRC`).
const NO_DATA_CRC: u8 = 2;
/// The message is signed (`CEPH_MSG_FOOTER_SIGNED`).
const SIGNED: u8 = 4;
const SIGNATURE_AT: usize = 12;

pub(super) type Lens = [u32; 3];

/// Writes tag and header of a message from `source`, in words like the version 2 header. Returns the header's checksum.
pub(super) fn put_head(header: &Header, source: EntityName, lens: Lens, to: &mut [u8; HEAD_LEN]) -> u32 {
    let [kind, priority, version, compat_version, data_offset] =
        [header.kind, header.priority, header.version, header.compat_version, header.data_offset]
            .map(u64::from);
    let [front, middle, data] = lens.map(u64::from);
    let num = source.num as u64;
    let words = [
        header.seq,
        header.tid,
        kind | priority << 16 | version << 32 | front << 48,
        front >> 16 | middle << 16 | data << 48,
        data >> 16 | data_offset << 16 | u64::from(source.kind) << 32 | num << 40,
        num >> 24 | compat_version << 40,
    ];
    let [tag, header @ ..] = to;
    *tag = tag::MESSAGE;
    let (slots, rest) = header.as_chunks_mut::<8>();
    for (slot, word) in slots.iter_mut().zip(words) {
        *slot = word.to_le_bytes();
    }
    // Second reserved byte.
    rest[0] = 0;
    let crc = crc32c(0, &header[..HEADER_CRC_AT]);
    header[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Reads a header. Returns it with its checksum. The repeated sender name is ignored, because the connection already
/// knows it.
pub(super) fn read_header(bytes: &[u8]) -> Result<(Header, Lens, u32), Error> {
    let mut r = Reader::new(bytes);
    let covered = r.take(HEADER_CRC_AT, "message header")?;
    let crc = r.u32("message header crc")?;
    if crc32c(0, covered) != crc {
        return Err(Error::Corrupt("a message's header"));
    }
    let (header, lens) = decode_header(&mut Reader::new(covered))?;
    Ok((header, lens, crc))
}

fn decode_header(r: &mut Reader<'_>) -> Decoded<(Header, Lens)> {
    let (seq, tid) = (r.u64("message seq")?, r.u64("message tid")?);
    let (kind, priority) = (r.u16("message type")?, r.u16("message priority")?);
    let version = r.u16("message version")?;
    let lens = [r.u32("front length")?, r.u32("middle length")?, r.u32("data length")?];
    let data_offset = r.u16("message data offset")?;
    r.take(9, "message source")?;
    let compat_version = r.u16("message compat version")?;
    let header =
        Header { seq, tid, kind, priority, version, compat_version, data_offset, ..Header::default() };
    Ok((header, lens))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footers {
    pub(super) has_room: bool,
}

impl Footers {
    pub(super) fn len(self) -> usize {
        if self.has_room { FOOTER_LEN } else { OLD_FOOTER_LEN }
    }

    pub(super) fn put(self, footer: Footer, to: &mut [u8; FOOTER_MAX]) -> usize {
        let mut flags = COMPLETE | if footer.data_crc.is_some() { 0 } else { NO_DATA_CRC };
        let crcs = [footer.front_crc, footer.middle_crc, footer.data_crc.unwrap_or(0)];
        to.fill(0);
        for (slot, crc) in to.chunks_exact_mut(4).zip(crcs) {
            slot.copy_from_slice(&crc.to_le_bytes());
        }
        if let Some(signature) = footer.signature.filter(|_| self.has_room) {
            to[SIGNATURE_AT..SIGNATURE_AT + 8].copy_from_slice(&signature.to_le_bytes());
            flags |= SIGNED;
        }
        to[self.len() - 1] = flags;
        self.len()
    }

    /// Reads a footer. Returns `None` if the sender aborted the message.
    pub(super) fn read(self, bytes: &[u8]) -> Decoded<Option<Footer>> {
        let mut r = Reader::new(bytes);
        let [front_crc, middle_crc, data_crc] =
            [r.u32("front crc")?, r.u32("middle crc")?, r.u32("data crc")?];
        let signature = if self.has_room { r.u64("signature")? } else { 0 };
        let flags = r.u8("footer flags")?;
        let data_crc = (flags & NO_DATA_CRC == 0).then_some(data_crc);
        let signature = (flags & SIGNED != 0).then_some(signature);
        Ok((flags & COMPLETE != 0).then_some(Footer { front_crc, middle_crc, data_crc, signature }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) front_crc: u32,
    pub(super) middle_crc: u32,
    /// `None`: the sender omits it.
    pub(super) data_crc: Option<u32>,
    pub(super) signature: Option<u64>,
}

impl Footer {
    /// Returns the expected signature of a message with this footer (CephxSessionHandler.cc, `_calc_signature`, between
    /// peers that know CEPHX_V2).
    pub(super) fn sign(&self, key: &Key, header_crc: u32, lens: Lens, seq: u64) -> u64 {
        let [front, middle, data] = lens;
        let data_crc = self.data_crc.unwrap_or(0);
        let numbers =
            [header_crc, self.front_crc, front, self.middle_crc, middle, data_crc, data, seq as u32];
        let mut block = [0; 32];
        for (slot, number) in block.chunks_exact_mut(4).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        key.sign_message(&block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire_and_corruption_is_detected() {
        let header = Header {
            seq: 1 << 60 | 5,
            tid: 2,
            kind: 42,
            priority: 127,
            version: 8,
            compat_version: 0x1234,
            data_offset: 4095,
            ..Header::default()
        };
        let lens = [0x0102_0304, 0x0506_0708, 0x090a_0b0c];
        let mut bytes = [0xff; HEAD_LEN];
        let crc = put_head(&header, EntityName::client(0x1122_3344_5566), lens, &mut bytes);
        assert_eq!(bytes[0], 7);
        assert_eq!(bytes[1 + 36..1 + 45], [8, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0]);
        assert_eq!(bytes[1 + 47..1 + 49], [0, 0]);
        assert_eq!(read_header(&bytes[1..]), Ok((header, lens, crc)));
        for bit in 8..HEAD_LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_header(&bad[1..]), Err(Error::Corrupt("a message's header")), "bit {bit}");
        }
    }

    #[test]
    fn footers_of_both_kinds_survive_the_wire() {
        for (has_room, len) in [(true, 21), (false, 13)] {
            let footers = Footers { has_room };
            for data_crc in [Some(3), None] {
                let signature = has_room.then_some(1 << 60 | 5);
                let footer = Footer { front_crc: 1, middle_crc: 2, data_crc, signature };
                let mut bytes = [0xff; FOOTER_MAX];
                assert_eq!(footers.put(footer, &mut bytes), len);
                assert_eq!(footers.read(&bytes[..len]), Ok(Some(footer)));
                bytes[len - 1] &= !COMPLETE;
                assert_eq!(footers.read(&bytes[..len]), Ok(None));
                assert!(footers.read(&bytes[..len - 1]).is_err());
            }
        }
    }
}
