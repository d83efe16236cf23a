//! Message header on the wire.
//!
//! Source: ceph `src/include/msgr.h` (`ceph_msg_header2`).

use crate::message::Header;
use onego_wire::{DecodeError, Decoded, Reader};

/// Size of a message header, the first segment of its frame, in bytes.
pub(super) const HEADER_LEN: usize = 41;

impl Header {
    /// Writes the header to `to` in words: its checksum reads the same words next, and the processor would stall on
    /// smaller writes.
    #[inline]
    pub(super) fn put(&self, to: &mut [u8; HEADER_LEN]) {
        let [kind, priority, version, compat_version] =
            [self.kind, self.priority, self.version, self.compat_version].map(u64::from);
        let (data_offset, flags) = (u64::from(self.data_offset), u64::from(self.flags));
        // Bytes 22 to 26, the length of padding before the data, are always 0. The last two are reserved.
        let words = [
            self.seq,
            self.tid,
            kind | priority << 16 | version << 32,
            data_offset << 16 | self.ack_seq << 32,
            self.ack_seq >> 32 | flags << 32 | compat_version << 40,
        ];
        let (slots, rest) = to.as_chunks_mut::<8>();
        for (slot, word) in slots.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        rest.fill(0);
    }

    pub(super) fn from_wire(bytes: &[u8; HEADER_LEN]) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let (seq, tid) = (r.u64("message seq")?, r.u64("message tid")?);
        let (kind, priority) = (r.u16("message type")?, r.u16("message priority")?);
        let version = r.u16("message version")?;
        let padding = r.u32("message data padding")?;
        if padding != 0 {
            return Err(DecodeError::Invalid { what: "message data padding", value: padding.into() });
        }
        let data_offset = r.u16("message data offset")?;
        let ack_seq = r.u64("message ack seq")?;
        let flags = r.u8("message flags")?;
        let compat_version = r.u16("message compat version")?;
        Ok(Self { seq, tid, kind, priority, version, compat_version, data_offset, flags, ack_seq })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let header = Header {
            seq: 1 << 60,
            tid: 2,
            kind: 42,
            priority: 127,
            version: 8,
            compat_version: 3,
            data_offset: 4095,
            flags: 1,
            ack_seq: 1 << 40,
        };
        let mut bytes = [0xff; HEADER_LEN];
        header.put(&mut bytes);
        assert_eq!(Header::from_wire(&bytes), Ok(header));
        bytes[22] = 1;
        assert_eq!(
            Header::from_wire(&bytes),
            Err(DecodeError::Invalid { what: "message data padding", value: 1 })
        );
    }
}
