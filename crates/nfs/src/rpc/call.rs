//! The header of a call (RFC 5531, section 9).

use super::auth::{Credential, expect, put_none, skip_verifier};
use super::{CALL, RPC_VERSION};
use crate::xdr::{Reader, Writer, Xdr};
use onego_wire::Decoded;

/// The header of a call: the arguments follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Names the call to its caller; the reply has the same.
    pub xid: u32,
    /// The version of RPC. What follows it in the header is known for version 2 alone.
    pub rpc_version: u32,
    /// The program.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// Who makes it.
    pub credential: Credential,
}

impl Call {
    /// A call of version 2.
    pub fn new(xid: u32, program: u32, version: u32, procedure: u32, credential: Credential) -> Self {
        Self { xid, rpc_version: RPC_VERSION, program, version, procedure, credential }
    }

    /// Is it of the version of RPC that there is?
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
        w.u32(self.xid);
        w.u32(CALL);
        w.u32(self.rpc_version);
        w.u32(self.program);
        w.u32(self.version);
        w.u32(self.procedure);
        self.credential.encode(w);
        put_none(w);
    }
}
