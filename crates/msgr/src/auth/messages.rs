//! Messages by which a monitor authenticates a client in protocol version 1.

use crate::types::{Payload, decode_service_head, encode_service_head, kind};
use onego_buf::List;
use onego_wire::{Decoded, Reader, Writer};

/// Client's part of the authentication (`MAuth`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Auth {
    /// Method (`CEPH_AUTH_*`); 0 in the first message, which lists the client's methods.
    pub method: u32,
    /// Payload of the method.
    pub payload: Vec<u8>,
    /// The client's monitor map epoch.
    pub monmap_epoch: u32,
}

impl Payload for Auth {
    const KIND: u16 = kind::AUTH;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        encode_service_head(w, 0);
        w.u32(self.method);
        w.blob(&self.payload);
        w.u32(self.monmap_epoch);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        decode_service_head(r)?;
        let method = r.u32("auth method")?;
        let payload = r.blob("auth payload")?.to_vec();
        // Kernel clients omit it.
        let monmap_epoch = if r.is_empty() { 0 } else { r.u32("monmap epoch")? };
        Ok(Self { method, payload, monmap_epoch })
    }
}

/// Monitor's part of the authentication (`MAuthReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthReply {
    /// Method that the monitor has chosen.
    pub method: u32,
    /// 0 or a negative error number.
    pub result: i32,
    /// Global id of the client.
    pub global_id: u64,
    /// Payload of the method.
    pub payload: Vec<u8>,
    /// Human-readable error message.
    pub message: String,
}

impl Payload for AuthReply {
    const KIND: u16 = kind::AUTH_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        w.u32(self.method);
        w.i32(self.result);
        w.u64(self.global_id);
        w.blob(&self.payload);
        w.string(&self.message);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self {
            method: r.u32("auth method")?,
            result: r.i32("auth result")?,
            global_id: r.u64("global id")?,
            payload: r.blob("auth payload")?.to_vec(),
            message: r.string("auth message")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(payload: &impl Payload) -> Vec<u8> {
        let mut w = Writer::new();
        payload.encode(&mut w, &mut List::new());
        w.into_vec()
    }

    #[test]
    fn both_parts_survive_the_wire() {
        let auth = Auth { method: 2, payload: b"who".to_vec(), monmap_epoch: 7 };
        assert_eq!(Auth::decode(1, &bytes(&auth), List::new()).as_ref(), Ok(&auth));
        let without_epoch = bytes(&auth)[..18 + 4 + 4 + 3].to_vec();
        assert_eq!(Auth::decode(1, &without_epoch, List::new()), Ok(Auth { monmap_epoch: 0, ..auth }));
        let reply =
            AuthReply { method: 1, result: -13, global_id: 4123, payload: vec![1], message: "no".into() };
        assert_eq!(AuthReply::decode(1, &bytes(&reply), List::new()), Ok(reply));
    }
}
