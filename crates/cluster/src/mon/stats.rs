//! Messages between clients and monitors that only a server has to know: the managers' map, and commands to a daemon
//! itself.
//!
//! Source: ceph `src/messages/{MMgrMap,MCommand,MCommandReply}.h`.

use onego_buf::List;
use onego_ceph::messages::{Payload, kind};
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::types::Uuid;
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

/// A command to the daemon itself, as `ceph tell` gives it (`MCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tell {
    pub(crate) fsid: Uuid,
    pub(crate) command: Vec<String>,
}

impl Payload for Tell {
    const KIND: u16 = kind::COMMAND;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.fsid.encode(w);
        self.command.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { fsid: Uuid::decode(r)?, command: Vec::decode(r)? })
    }
}

/// The outcome of a [`Tell`] (`MCommandReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TellReply {
    pub(crate) result: i32,
    pub(crate) status: String,
    pub(crate) output: List,
}

impl Payload for TellReply {
    const KIND: u16 = kind::COMMAND_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        w.i32(self.result);
        w.string(&self.status);
        data.append(self.output.clone());
    }

    fn decode(_: u16, front: &[u8], output: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { result: r.i32("result")?, status: r.string("status")?, output })
    }
}
