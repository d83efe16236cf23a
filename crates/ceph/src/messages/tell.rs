//! Commands to a daemon itself, as by `ceph tell` (ceph `src/messages/{MCommand,MCommandReply}.h`).

use crate::types::Uuid;
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode};
use onego_msgr::types::{Payload, kind};
use onego_wire::{Decoded, Reader, Writer};

/// Command to the receiving daemon (`MCommand`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tell {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Command: one string of JSON.
    pub command: Vec<String>,
    /// Input of the command.
    pub input: List,
}

impl Payload for Tell {
    const KIND: u16 = kind::COMMAND;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        self.fsid.encode(w);
        self.command.encode(w);
        data.append(self.input.clone());
    }

    fn decode(_: u16, front: &[u8], input: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { fsid: Uuid::decode(r)?, command: Vec::decode(r)?, input })
    }
}

/// Result of a [`Tell`] (`MCommandReply`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TellReply {
    /// 0, or a negative errno.
    pub result: i32,
    /// Message for the user.
    pub status: String,
    /// Output of the command.
    pub output: List,
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
        let result = r.i32("result")?;
        let status = String::from_utf8_lossy(r.blob("status")?).into_owned();
        Ok(Self { result, status, output })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_replies_survive_the_wire() {
        fn there_and_back<P: Payload + PartialEq + std::fmt::Debug>(payload: &P) {
            let (mut front, mut data) = (Writer::new(), List::new());
            payload.encode(&mut front, &mut data);
            assert_eq!(P::decode(P::VERSION, front.as_slice(), data).as_ref(), Ok(payload));
        }
        let command = vec![r#"{"prefix": "version"}"#.to_owned()];
        there_and_back(&Tell { fsid: Uuid([7; 16]), command, input: b"in".to_vec().into() });
        there_and_back(&TellReply { result: -22, status: "no".into(), output: b"out".to_vec().into() });
    }
}
