//! Decodes an OSD's reply in place.
//!
//! The same layout as [`crate::messages::OsdOpReply`] (ceph `src/messages/MOSDOpReply.h`), without the fields that only a
//! sender needs, and with a payload that may already be in the caller's buffer.

use crate::messages::{ObjectName, OpResult, OsdOpReply, Payload, Redirect};
use crate::ops::DESCRIPTOR_LEN;
use crate::types::{EVersion, Epoch, ObjectLocator, PgId};
use onego_buf::List;
use onego_msgr::Header;
use onego_msgr::encoding::{Decode, envelope};
use onego_wire::{DecodeError, Decoded, Reader};
use smallvec::SmallVec;

/// Oldest supported layout: all peers with msgr2 write at least this one.
const OLDEST: u16 = 7;

#[derive(Debug)]
pub(super) struct OsdReply {
    pub(super) result: i32,
    pub(super) epoch: Epoch,
    pub(super) ops: SmallVec<[OpResult; 1]>,
    pub(super) attempt: i32,
    pub(super) version: EVersion,
    pub(super) user_version: u64,
    pub(super) redirect: Option<Box<Redirect>>,
}

/// Decodes a reply. `placed` is the number of output bytes that are in the caller's buffer instead of in `data`.
pub(super) fn decode(
    header: &Header,
    front: &[u8],
    mut data: List,
    placed: Option<usize>,
) -> Decoded<OsdReply> {
    const WHAT: &str = "osd_op_reply";
    let Header { version, compat_version: compat, .. } = *header;
    if version < OLDEST {
        return Err(DecodeError::TooOld { what: WHAT, version: version as u8, oldest: OLDEST as u8 });
    }
    if compat > OsdOpReply::VERSION {
        let compat = u8::try_from(compat).unwrap_or(u8::MAX);
        return Err(DecodeError::TooNew { what: WHAT, compat, known: OsdOpReply::VERSION as u8 });
    }
    let r = &mut Reader::new(front);
    r.blob("object name")?;
    r.take(PgId::WIRE_LEN, WHAT)?;
    r.u64("flags")?;
    let result = r.i32("result")?;
    EVersion::decode(r)?;
    let epoch = r.u32("epoch")?;
    let count = r.count(DESCRIPTOR_LEN, "operations")?;
    let mut ops = SmallVec::<[OpResult; 1]>::new();
    let mut left = placed.unwrap_or(data.len());
    for _ in 0..count {
        let code = r.u16("operation")?;
        r.take(DESCRIPTOR_LEN - 6, "operation")?;
        let len = r.u32("length of an operation's output")? as usize;
        let needed = |left| DecodeError::Truncated { what: "operation's output", needed: len, left };
        left = left.checked_sub(len).ok_or(needed(left))?;
        let output = if placed.is_some() { List::new() } else { data.split_to(len) };
        ops.push(OpResult { code, result: 0, output });
    }
    let attempt = r.i32("attempt")?;
    for op in &mut ops {
        op.result = r.i32("operation's result")?;
    }
    let version = EVersion::decode(r)?;
    let user_version = r.u64("user version")?;
    let redirect = if r.bool("redirect")? {
        Some(envelope(r, 1, "redirect", |_, r| {
            let locator = ObjectLocator::decode(r)?;
            Ok(Box::new(Redirect { locator, object: ObjectName::new(r.blob("object name")?) }))
        })?)
    } else {
        None
    };
    Ok(OsdReply { result, epoch, ops, attempt, version, user_version, redirect })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_wire::Writer;
    use smallvec::smallvec;

    #[test]
    fn replies_of_servers_are_decoded() {
        let sent = OsdOpReply {
            object: ObjectName::from("object"),
            pg: PgId { pool: 1, seed: 2 },
            result: -2,
            epoch: 9,
            ops: smallvec![
                OpResult { code: 1, result: -5, output: vec![1, 2].into() },
                OpResult { code: 2, result: 3, output: vec![3].into() }
            ],
            attempt: 4,
            replay_version: EVersion { version: 8, epoch: 9 },
            user_version: 7,
            redirect: Some(Redirect {
                locator: ObjectLocator { pool: 3, ..ObjectLocator::default() },
                object: ObjectName::default(),
            }),
            ..OsdOpReply::default()
        };
        let (mut front, mut data) = (Writer::new(), List::new());
        sent.encode(&mut front, &mut data);
        let header = Header { version: OsdOpReply::VERSION, ..Header::default() };
        let read = decode(&header, front.as_slice(), data.clone(), None).unwrap();
        assert_eq!((read.result, read.epoch, read.attempt, read.user_version), (-2, 9, 4, 7));
        assert_eq!((read.ops.as_slice(), read.version), (sent.ops.as_slice(), sent.replay_version));
        assert_eq!(read.redirect.map(|redirect| *redirect), sent.redirect);

        let placed = decode(&header, front.as_slice(), List::new(), Some(3)).unwrap();
        assert!(placed.ops.iter().all(|op| op.output.is_empty()));
        assert!(decode(&header, front.as_slice(), List::new(), Some(2)).is_err());
        for end in 0..100 {
            assert!(decode(&header, &front.as_slice()[..end], data.clone(), None).is_err());
        }
    }
}
