//! What a message says, apart from how it is framed.

use onego_buf::List;
use onego_wire::{Decoded, Reader, Writer};

/// A message's content.
pub trait Payload: Sized {
    /// Number of the message type.
    const KIND: u16;
    /// Version of the layout that [`encode`](Self::encode) writes.
    const VERSION: u16;
    /// The oldest layout that a reader must know to read it.
    const COMPAT: u16;

    /// Appends the front to `front` and the data to `data`.
    fn encode(&self, front: &mut Writer, data: &mut List);

    /// Reads the message that a writer of `version` wrote.
    fn decode(version: u16, front: &[u8], data: List) -> Decoded<Self>;
}

/// The head of every message to or from a monitor's services (`PaxosServiceMessage`): the version that the sender
/// has, and two fields that only monitors use among themselves.
pub fn encode_service_head(w: &mut Writer, version: u64) {
    w.u64(version);
    w.i16(-1);
    w.u64(0);
}

/// Reads what [`encode_service_head`] writes, and returns the version.
pub fn decode_service_head(r: &mut Reader<'_>) -> Decoded<u64> {
    let version = r.u64("service version")?;
    r.i16("session monitor")?;
    r.u64("session monitor's tid")?;
    Ok(version)
}
