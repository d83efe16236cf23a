//! Locates the payloads of calls and replies.

use super::procedures::{Read, Readlink, Symlink, Write};
use super::program::{PROGRAM, VERSION};
use super::types::{Attributes, HANDLE_MAX, Place, SetAttributes, Stability};
use crate::rpc::{Accepted, Call, Procedure as _, Reply, Split};
use crate::xdr::{Reader, Xdr};
use onego_wire::{DecodeError, Decoded};

/// Encoded length of the payload, or `None` if there is no payload.
type Payload = Decoded<Option<u32>>;

/// Locates the payload of the call that begins with `start`.
pub fn split_call(start: &[u8]) -> Split {
    split(start, |r| {
        let call = Call::decode(r)?;
        if (call.program, call.version) != (PROGRAM, VERSION) {
            return Ok(None);
        }
        match call.procedure {
            Write::NUMBER => {
                r.opaque(HANDLE_MAX, "file handle")?;
                r.u64("offset")?;
                r.u32("count")?;
                Stability::decode(r)?;
            }
            Symlink::NUMBER => {
                Place::decode(r)?;
                SetAttributes::decode(r)?;
            }
            _ => return Ok(None),
        }
        r.u32("length of a payload").map(Some)
    })
}

/// Locates the payload of a reply to `procedure`.
pub fn split_reply(start: &[u8], procedure: u32) -> Split {
    split(start, |r| {
        let reply = Reply::decode(r)?;
        let has_payload = [Read::NUMBER, Readlink::NUMBER].contains(&procedure);
        if !has_payload || reply.result != Ok(Accepted::Success) || !r.take_ok()? {
            return Ok(None);
        }
        Attributes::skip(r)?;
        if procedure == Read::NUMBER {
            r.u32("count")?;
            r.bool("end of file")?;
        }
        r.u32("length of a payload").map(Some)
    })
}

/// Messages that cannot be decoded have no payload: the error is reported when the whole message is decoded.
fn split(start: &[u8], payload: impl Fn(&mut Reader<'_>) -> Payload) -> Split {
    let mut r = Reader::new(start);
    match payload(&mut r) {
        Ok(Some(len)) => Split::At(start.len() - r.left(), len as usize),
        Ok(None) => Split::Never,
        Err(DecodeError::Truncated { needed, left, .. }) => Split::More(start.len() + needed - left),
        Err(_) => Split::Never,
    }
}
