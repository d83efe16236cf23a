//! The header of a reply (RFC 5531, section 9).

use super::auth::{expect, put_none, skip_verifier};
use super::message::REPLY;
use crate::xdr::{Reader, Writer, Xdr};
use onego_wire::{DecodeError, Decoded};

/// The header of a reply; results follow if the server executed the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Transaction ID of the call.
    pub xid: u32,
    /// The outcome of the call.
    pub result: Result<Accepted, Denied>,
}

/// The outcome of a call that was not denied (`accept_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The server executed the call; results follow.
    Success,
    /// The program is unavailable.
    ProgramUnavailable,
    /// The program version is unavailable; these are the lowest and highest that are available.
    ProgramMismatch(u32, u32),
    /// The procedure is unavailable.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// The server failed.
    SystemError,
}

/// The reason that a call was denied (`reject_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The RPC version is unsupported; these are the lowest and highest that are supported.
    RpcMismatch(u32, u32),
    /// The caller is rejected (`auth_stat`; see [`Denied::BAD_CREDENTIAL`] and the constants after it).
    Authentication(u32),
}

impl Denied {
    /// The credential is malformed.
    pub const BAD_CREDENTIAL: Self = Self::Authentication(1);
    /// The verifier is malformed.
    pub const BAD_VERIFIER: Self = Self::Authentication(3);
    /// The credential is too weak: the server requires another flavor.
    pub const TOO_WEAK: Self = Self::Authentication(5);
}

/// The bytes after the xid of nearly all replies: reply, accepted, `AUTH_NONE` verifier, success.
const SUCCESS: [u8; 20] = {
    let mut bytes = [0; 20];
    bytes[3] = REPLY as u8;
    bytes
};

const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;

impl Xdr for Reply {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let xid = r.u32("xid")?;
        let mut ahead = *r;
        if ahead.array("a reply") == Ok(SUCCESS) {
            *r = ahead;
            return Ok(Self { xid, result: Ok(Accepted::Success) });
        }
        expect(r, "message type", REPLY)?;
        let result = match r.u32("reply status")? {
            ACCEPTED => {
                skip_verifier(r)?;
                Ok(Accepted::decode(r)?)
            }
            DENIED => Err(Denied::decode(r)?),
            other => return Err(DecodeError::Invalid { what: "reply status", value: other.into() }),
        };
        Ok(Self { xid, result })
    }

    fn encode(&self, w: &mut Writer) {
        w.u32(self.xid);
        w.u32(REPLY);
        match self.result {
            Ok(accepted) => {
                w.u32(ACCEPTED);
                put_none(w);
                accepted.encode(w);
            }
            Err(denied) => {
                w.u32(DENIED);
                denied.encode(w);
            }
        }
    }
}

impl Xdr for Accepted {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(match r.u32("accept status")? {
            0 => Self::Success,
            1 => Self::ProgramUnavailable,
            2 => Self::ProgramMismatch(r.u32("lowest version")?, r.u32("highest version")?),
            3 => Self::ProcedureUnavailable,
            4 => Self::GarbageArguments,
            5 => Self::SystemError,
            other => return Err(DecodeError::Invalid { what: "accept status", value: other.into() }),
        })
    }

    fn encode(&self, w: &mut Writer) {
        match *self {
            Self::Success => w.u32(0),
            Self::ProgramUnavailable => w.u32(1),
            Self::ProgramMismatch(low, high) => [2, low, high].into_iter().for_each(|word| w.u32(word)),
            Self::ProcedureUnavailable => w.u32(3),
            Self::GarbageArguments => w.u32(4),
            Self::SystemError => w.u32(5),
        }
    }
}

impl Xdr for Denied {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u32("reject status")? {
            0 => Ok(Self::RpcMismatch(r.u32("lowest version")?, r.u32("highest version")?)),
            1 => Ok(Self::Authentication(r.u32("authentication status")?)),
            other => Err(DecodeError::Invalid { what: "reject status", value: other.into() }),
        }
    }

    fn encode(&self, w: &mut Writer) {
        match *self {
            Self::RpcMismatch(low, high) => [0, low, high].into_iter().for_each(|word| w.u32(word)),
            Self::Authentication(status) => [1, status].into_iter().for_each(|word| w.u32(word)),
        }
    }
}
