//! Payloads of control frames.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Hello", "Authentication", "Message flow handshake"; `src/msg/async/frames_v2.h`.
//! A newer peer may append to any of them, so bytes after the known fields are left unread.

use crate::claim::{Ident, Reconnect};
use crate::types::addr::{AddrVec, EntityAddr};
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Writer};

/// Size of the signature in AUTH_SIGNATURE, a SHA-256, in bytes.
pub(super) const SIGNATURE_LEN: usize = 32;
/// Signature on a connection without a session key (ProtocolV2.cc, `finish_auth`).
pub(super) const NO_SIGNATURE: [u8; SIGNATURE_LEN] = [0; SIGNATURE_LEN];

/// The sender drops the session when the connection breaks (`CEPH_MSG_CONNECT_LOSSY`).
pub(super) const FLAG_LOSSY: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) kind: u8,
    /// The receiver's address as seen by the sender.
    pub(super) your_addr: EntityAddr,
}

impl Decode for Hello {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { kind: r.u8("hello kind")?, your_addr: EntityAddr::decode(r)? })
    }
}

impl Encode for Hello {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind);
        self.your_addr.encode(w);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthRequest {
    pub(super) method: u32,
    /// Connection modes in order of preference.
    pub(super) modes: Vec<u32>,
    pub(super) payload: Vec<u8>,
}

impl Decode for AuthRequest {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            method: r.u32("auth method")?,
            modes: Vec::decode(r)?,
            payload: r.blob("auth payload")?.to_vec(),
        })
    }
}

impl Encode for AuthRequest {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.method);
        self.modes.encode(w);
        w.blob(&self.payload);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthBadMethod {
    pub(super) method: u32,
    /// Negative error number.
    pub(super) result: i32,
    pub(super) methods: Vec<u32>,
    pub(super) modes: Vec<u32>,
}

impl Decode for AuthBadMethod {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            method: r.u32("auth method")?,
            result: r.i32("auth result")?,
            methods: Vec::decode(r)?,
            modes: Vec::decode(r)?,
        })
    }
}

impl Encode for AuthBadMethod {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.method);
        w.i32(self.result);
        self.methods.encode(w);
        self.modes.encode(w);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthDone {
    pub(super) global_id: u64,
    pub(super) mode: u32,
    pub(super) payload: Vec<u8>,
}

impl Decode for AuthDone {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            global_id: r.u64("global id")?,
            mode: r.u32("connection mode")?,
            payload: r.blob("auth payload")?.to_vec(),
        })
    }
}

impl Encode for AuthDone {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.global_id);
        w.u32(self.mode);
        w.blob(&self.payload);
    }
}

/// AUTH_REPLY_MORE and AUTH_REQUEST_MORE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthMore {
    pub(super) payload: Vec<u8>,
}

impl Decode for AuthMore {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { payload: r.blob("auth payload")?.to_vec() })
    }
}

impl Encode for AuthMore {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.payload);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompressionRequest {
    pub(super) compress: bool,
    /// Numbers of the client's methods, in order of preference.
    pub(super) methods: Vec<u32>,
}

impl Decode for CompressionRequest {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { compress: r.bool("compression request")?, methods: Vec::decode(r)? })
    }
}

impl Encode for CompressionRequest {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.compress);
        self.methods.encode(w);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompressionDone {
    pub(super) compress: bool,
    /// Number of the method, or 0.
    pub(super) method: u32,
}

impl Decode for CompressionDone {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { compress: r.bool("compression answer")?, method: r.u32("compression method")? })
    }
}

impl Encode for CompressionDone {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.compress);
        w.u32(self.method);
    }
}

impl Ident {
    pub(super) fn decode_client(r: &mut Reader<'_>) -> Decoded<Self> {
        let addrs = AddrVec::decode(r)?;
        let target = Some(EntityAddr::decode(r)?);
        Self::decode_rest(addrs, target, r)
    }

    pub(super) fn decode_server(r: &mut Reader<'_>) -> Decoded<Self> {
        let addrs = AddrVec::decode(r)?;
        Self::decode_rest(addrs, None, r)
    }

    fn decode_rest(addrs: AddrVec, target: Option<EntityAddr>, r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            addrs,
            target,
            num: r.i64("ident number")?,
            global_seq: r.u64("ident global_seq")?,
            supported: r.u64("ident supported features")?,
            required: r.u64("ident required features")?,
            flags: r.u64("ident flags")?,
            cookie: r.u64("ident cookie")?,
        })
    }
}

impl Encode for Ident {
    fn encode(&self, w: &mut Writer) {
        self.addrs.encode(w);
        if let Some(target) = &self.target {
            target.encode(w);
        }
        w.i64(self.num);
        w.u64(self.global_seq);
        w.u64(self.supported);
        w.u64(self.required);
        w.u64(self.flags);
        w.u64(self.cookie);
    }
}

impl Decode for Reconnect {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            addrs: AddrVec::decode(r)?,
            client_cookie: r.u64("client cookie")?,
            server_cookie: r.u64("server cookie")?,
            global_seq: r.u64("global_seq")?,
            connect_seq: r.u64("connect_seq")?,
            msg_seq: r.u64("msg_seq")?,
        })
    }
}

impl Encode for Reconnect {
    fn encode(&self, w: &mut Writer) {
        self.addrs.encode(w);
        w.u64(self.client_cookie);
        w.u64(self.server_cookie);
        w.u64(self.global_seq);
        w.u64(self.connect_seq);
        w.u64(self.msg_seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::encoding::survives;

    #[test]
    fn the_negotiation_of_compression_matches_osds_of_reef() {
        let request = CompressionRequest { compress: true, methods: vec![1] };
        assert_eq!(request.to_bytes(), [1, 1, 0, 0, 0, 1, 0, 0, 0]);
        let done = CompressionDone { compress: true, method: 3 };
        assert_eq!(done.to_bytes(), [1, 3, 0, 0, 0]);
    }

    #[test]
    fn payloads_survive_the_wire_and_truncation_is_detected() {
        let addr: EntityAddr = "v2:10.0.0.1:3300/7".parse().unwrap();
        let addrs = AddrVec(vec![addr]);
        survives(&Hello { kind: 8, your_addr: addr });
        survives(&AuthRequest { method: 1, modes: vec![1, 2], payload: b"who".to_vec() });
        survives(&AuthBadMethod { method: 2, result: -95, methods: vec![1], modes: vec![1] });
        survives(&AuthMore { payload: b"challenge".to_vec() });
        survives(&AuthDone { global_id: 4123, mode: 1, payload: b"key".to_vec() });
        survives(&CompressionRequest { compress: true, methods: vec![3, 1] });
        survives(&CompressionDone { compress: true, method: 3 });
        survives(&Reconnect {
            addrs,
            client_cookie: 1,
            server_cookie: 2,
            global_seq: 3,
            connect_seq: 4,
            msg_seq: 5,
        });
    }
}
