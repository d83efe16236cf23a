//! The header of a call (RFC 5531, section 9).

use super::auth::{BODY_MAX, Credential, expect, put_none, skip_verifier};
use super::message::{CALL, RPC_VERSION};
use super::reply::Denied;
use crate::xdr::{Reader, Writer, Xdr};
use onego_wire::Decoded;
use thiserror::Error;

/// The header of a call; the arguments follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Transaction ID, which the reply repeats.
    pub xid: u32,
    /// RPC version. The fields after it are only decoded for version 2.
    pub rpc_version: u32,
    /// RPC program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Credential of the caller.
    pub credential: Credential,
}

impl Call {
    /// Creates the header of an RPC version 2 call.
    pub fn new(xid: u32, program: u32, version: u32, procedure: u32, credential: Credential) -> Self {
        Self { xid, rpc_version: RPC_VERSION, program, version, procedure, credential }
    }

    /// Returns whether the RPC version is the supported one.
    pub fn is_known_version(&self) -> bool {
        self.rpc_version == RPC_VERSION
    }
}

impl Xdr for Call {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let xid = r.u32("xid")?;
        expect(r, "message type", CALL)?;
        let rpc_version = r.u32("version of RPC")?;
        if rpc_version != RPC_VERSION {
            let (program, version, procedure) = (0, 0, 0);
            let credential = Credential::None;
            return Ok(Self { xid, rpc_version, program, version, procedure, credential });
        }
        let (program, version) = (r.u32("program")?, r.u32("version of a program")?);
        let procedure = r.u32("procedure")?;
        let credential = Credential::decode(r)?;
        skip_verifier(r)?;
        Ok(Self { xid, rpc_version, program, version, procedure, credential })
    }

    fn encode(&self, w: &mut Writer) {
        put_words(w, [self.xid, CALL, self.rpc_version, self.program, self.version, self.procedure]);
        self.credential.encode(w);
        put_none(w);
    }
}

pub(crate) fn put_call(
    w: &mut Writer,
    xid: u32,
    program: u32,
    version: u32,
    procedure: u32,
    credential: &[u8],
) {
    put_words(w, [xid, CALL, RPC_VERSION, program, version, procedure]);
    w.append(credential);
    put_none(w);
}

fn put_words(w: &mut Writer, words: [u32; 6]) {
    w.append(words.map(u32::to_be_bytes).as_flattened());
}

/// The header of a call as servers read it. The credential stays encoded, because it is mostly the same as in the
/// previous call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Transaction ID, which the reply repeats.
    pub xid: u32,
    /// RPC program number.
    pub program: u32,
    /// Program version.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Authentication flavor (see [`flavor`](super::flavor)).
    pub flavor: u32,
    /// Body of the credential, for [`Credential::of`].
    pub credential: &'a [u8],
}

/// The reason that the header of a call cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The message is not a call and cannot be answered.
    #[error("a message is not a call")]
    NoCall,
    /// The call with this xid ends before its procedure number.
    #[error("the header of a call is truncated")]
    Short(u32),
    /// The call with this xid must be denied.
    #[error("a call is denied: {1:?}")]
    Denied(u32, Denied),
}

impl<'a> Header<'a> {
    /// Reads the header and leaves the arguments. The error determines the reply (RFC 5531, section 9).
    pub fn read(r: &mut Reader<'a>) -> Result<Self, HeaderError> {
        let start = |r: &mut Reader<'a>| -> Decoded<_> {
            let xid = r.u32("xid")?;
            expect(r, "message type", CALL)?;
            Ok(xid)
        };
        let xid = start(r).map_err(|_| HeaderError::NoCall)?;
        let rpc_version = r.u32("version of RPC").map_err(|_| HeaderError::Short(xid))?;
        if rpc_version != RPC_VERSION {
            return Err(HeaderError::Denied(xid, Denied::RpcMismatch(RPC_VERSION, RPC_VERSION)));
        }
        let what = |r: &mut Reader<'a>| -> Decoded<_> {
            Ok((r.u32("program")?, r.u32("version of a program")?, r.u32("procedure")?))
        };
        let (program, version, procedure) = what(r).map_err(|_| HeaderError::Short(xid))?;
        let who = |r: &mut Reader<'a>| -> Decoded<_> {
            Ok((r.u32("flavor of a credential")?, r.opaque(BODY_MAX, "credential")?))
        };
        let (flavor, credential) = who(r).map_err(|_| HeaderError::Denied(xid, Denied::BAD_CREDENTIAL))?;
        skip_verifier(r).map_err(|_| HeaderError::Denied(xid, Denied::BAD_VERIFIER))?;
        Ok(Self { xid, program, version, procedure, flavor, credential })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(rpc_version: u32) -> Vec<u8> {
        let mut call = Call::new(7, 100_003, 3, 1, Credential::None);
        call.rpc_version = rpc_version;
        let mut w = Writer::new();
        call.encode(&mut w);
        w.as_slice().to_vec()
    }

    #[test]
    fn an_unreadable_header_determines_the_reply() {
        let good = call(2);
        let mut r = Reader::new(&good);
        let header = Header::read(&mut r).unwrap();
        assert_eq!((header.xid, header.program, header.procedure, header.flavor), (7, 100_003, 1, 0));
        assert_eq!(r.left(), 0);
        let read = |bytes: &[u8]| Header::read(&mut Reader::new(bytes)).unwrap_err();
        assert_eq!(read(&call(3)), HeaderError::Denied(7, Denied::RpcMismatch(2, 2)));
        for end in 8..24 {
            assert_eq!(read(&good[..end]), HeaderError::Short(7));
        }
        assert_eq!(read(&good[..7]), HeaderError::NoCall);
        assert_eq!(read(&good[..28]), HeaderError::Denied(7, Denied::BAD_CREDENTIAL));
        assert_eq!(read(&good[..36]), HeaderError::Denied(7, Denied::BAD_VERIFIER));
        let mut reply = good;
        reply[7] = 1;
        assert_eq!(read(&reply), HeaderError::NoCall);
    }
}
