//! Content of messages, independent of framing.

use onego_buf::List;
use onego_wire::{Decoded, Reader, Writer};

/// Content of a message.
pub trait Payload: Sized {
    /// Message type.
    const KIND: u16;
    /// Version of the layout written by [`encode`](Self::encode).
    const VERSION: u16;
    /// Oldest layout version that a reader must know.
    const COMPAT: u16;

    /// Appends the front to `front` and the data to `data`.
    fn encode(&self, front: &mut Writer, data: &mut List);

    /// Decodes a message encoded in layout `version`.
    fn decode(version: u16, front: &[u8], data: List) -> Decoded<Self>;
}

/// Writes the head of every message to or from a monitor service (`PaxosServiceMessage`): the sender's version, and two
/// fields used only between monitors.
pub fn encode_service_head(w: &mut Writer, version: u64) {
    w.u64(version);
    w.i16(-1);
    w.u64(0);
}

/// Reads the head written by [`encode_service_head`]. Returns the version.
pub fn decode_service_head(r: &mut Reader<'_>) -> Decoded<u64> {
    let version = r.u64("service version")?;
    r.i16("session monitor")?;
    r.u64("session monitor's tid")?;
    Ok(version)
}
