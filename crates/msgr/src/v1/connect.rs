//! Negotiation frames: the client's request and the server's reply.
//!
//! Source: ceph `src/include/msgr.h` (`ceph_msg_connect`, `ceph_msg_connect_reply`).

use onego_wire::{Decoded, Reader, Writer};

/// Size of a request without its authorizer, in bytes.
pub(super) const CONNECT_LEN: usize = 33;
/// Size of a reply without its authorizer, in bytes.
pub(super) const REPLY_LEN: usize = 26;

/// The sender drops the session when the connection breaks (`CEPH_MSG_CONNECT_LOSSY`).
pub(super) const LOSSY: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connect {
    pub(super) features: u64,
    pub(super) host_kind: u32,
    pub(super) global_seq: u32,
    pub(super) connect_seq: u32,
    pub(super) protocol_version: u32,
    /// Method of the authorizer; 0 without one.
    pub(super) method: u32,
    pub(super) authorizer_len: u32,
    pub(super) flags: u8,
}

impl Connect {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.features);
        w.u32(self.host_kind);
        w.u32(self.global_seq);
        w.u32(self.connect_seq);
        w.u32(self.protocol_version);
        w.u32(self.method);
        w.u32(self.authorizer_len);
        w.u8(self.flags);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            features: r.u64("connect features")?,
            host_kind: r.u32("connect kind")?,
            global_seq: r.u32("connect global_seq")?,
            connect_seq: r.u32("connect connect_seq")?,
            protocol_version: r.u32("connect protocol version")?,
            method: r.u32("connect auth method")?,
            authorizer_len: r.u32("connect authorizer length")?,
            flags: r.u8("connect flags")?,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectReply {
    pub(super) tag: u8,
    pub(super) features: u64,
    pub(super) global_seq: u32,
    pub(super) connect_seq: u32,
    pub(super) protocol_version: u32,
    pub(super) authorizer_len: u32,
    pub(super) flags: u8,
}

impl ConnectReply {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.u8(self.tag);
        w.u64(self.features);
        w.u32(self.global_seq);
        w.u32(self.connect_seq);
        w.u32(self.protocol_version);
        w.u32(self.authorizer_len);
        w.u8(self.flags);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            tag: r.u8("reply tag")?,
            features: r.u64("reply features")?,
            global_seq: r.u32("reply global_seq")?,
            connect_seq: r.u32("reply connect_seq")?,
            protocol_version: r.u32("reply protocol version")?,
            authorizer_len: r.u32("reply authorizer length")?,
            flags: r.u8("reply flags")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_survive_the_wire_with_their_lengths() {
        let connect = Connect {
            features: 1 << 63,
            host_kind: 8,
            global_seq: 2,
            connect_seq: 3,
            protocol_version: 24,
            method: 1,
            authorizer_len: 77,
            flags: LOSSY,
        };
        let mut w = Writer::new();
        connect.encode(&mut w);
        assert_eq!(w.len(), CONNECT_LEN);
        assert_eq!(Connect::decode(&mut Reader::new(w.as_slice())), Ok(connect));
        let reply = ConnectReply {
            tag: 13,
            features: 1 << 60,
            global_seq: 5,
            connect_seq: 6,
            protocol_version: 15,
            authorizer_len: 9,
            flags: 1,
        };
        let mut w = Writer::new();
        reply.encode(&mut w);
        assert_eq!(w.len(), REPLY_LEN);
        assert_eq!(ConnectReply::decode(&mut Reader::new(w.as_slice())), Ok(reply));
    }
}
