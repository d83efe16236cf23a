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
        put_words(w, [self.xid, CALL, self.rpc_version, self.program, self.version, self.procedure]);
        self.credential.encode(w);
        put_none(w);
    }
}

/// Appends the header of a call whose credential is encoded already.
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
    words.into_iter().for_each(|word| w.u32(word));
}
