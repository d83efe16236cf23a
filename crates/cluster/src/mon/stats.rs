//! A message between clients and monitors that only a server has to know: the managers' map.
//!
//! Source: ceph `src/messages/MMgrMap.h`.

use onego_buf::List;
use onego_ceph::messages::{Payload, kind};
use onego_ceph::mgrmap::MgrMap;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Writer};

/// The map of the managers (`MMgrMap`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MgrMapMessage {
    pub(super) map: MgrMap,
}

impl Payload for MgrMapMessage {
    const KIND: u16 = kind::MGR_MAP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.map.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        Ok(Self { map: MgrMap::decode(&mut Reader::new(front))? })
    }
}
