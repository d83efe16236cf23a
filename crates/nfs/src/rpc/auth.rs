//! Credentials of callers (RFC 5531, section 8 and appendix A).

use crate::xdr::{Reader, Writer, Xdr};
use onego_wire::{DecodeError, Decoded};

pub(super) const BODY_MAX: usize = 400;
const MACHINE_MAX: usize = 255;
const GROUPS_MAX: usize = 16;

/// Authentication flavors.
pub mod flavor {
    /// No authentication (`AUTH_NONE`).
    pub const NONE: u32 = 0;
    /// A user of a trusted machine (`AUTH_SYS`).
    pub const SYS: u32 = 1;
}

/// The credential of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credential {
    /// An anonymous caller.
    #[default]
    None,
    /// A user, as asserted by its machine.
    Sys(AuthSys),
    /// A credential of this unsupported flavor.
    Other(u32),
}

/// A user, as asserted by its machine (`authsys_parms`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthSys {
    /// Arbitrary number chosen by the machine.
    pub stamp: u32,
    /// Machine name.
    pub machine: Vec<u8>,
    /// User ID.
    pub uid: u32,
    /// Primary group ID.
    pub gid: u32,
    /// Supplementary group IDs.
    pub groups: Vec<u32>,
}

impl Xdr for AuthSys {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let (stamp, machine) = (r.u32("stamp")?, r.opaque(MACHINE_MAX, "name of a machine")?.to_vec());
        let (uid, gid) = (r.u32("uid")?, r.u32("gid")?);
        let count = r.len(GROUPS_MAX, "groups")?;
        let groups = (0..count).map(|_| r.u32("group")).collect::<Decoded<_>>()?;
        Ok(Self { stamp, machine, uid, gid, groups })
    }

    fn encode(&self, w: &mut Writer) {
        w.u32(self.stamp);
        w.opaque(&self.machine);
        w.u32(self.uid);
        w.u32(self.gid);
        w.len_of(self.groups.len());
        self.groups.iter().for_each(|group| w.u32(*group));
    }
}

impl Credential {
    /// Decodes the body of a credential of the given flavor.
    pub fn of(flavor: u32, body: &[u8]) -> Decoded<Self> {
        match flavor {
            flavor::NONE => Ok(Self::None),
            flavor::SYS => {
                let mut inner = Reader::new(body);
                let sys = AuthSys::decode(&mut inner)?;
                inner.finish("credential")?;
                Ok(Self::Sys(sys))
            }
            other => Ok(Self::Other(other)),
        }
    }
}

impl Xdr for Credential {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let flavor = r.u32("flavor of a credential")?;
        Self::of(flavor, r.opaque(BODY_MAX, "credential")?)
    }

    /// # Panics
    /// If it is [`Credential::Other`], whose body is not kept.
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::None => put_none(w),
            Self::Sys(sys) => {
                let mut body = Writer::new();
                sys.encode(&mut body);
                w.u32(flavor::SYS);
                w.opaque(body.as_slice());
            }
            Self::Other(flavor) => panic!("cannot encode a credential of flavor {flavor}"),
        }
    }
}

pub(super) fn put_none(w: &mut Writer) {
    w.append([flavor::NONE, 0].map(u32::to_be_bytes).as_flattened());
}

pub(super) fn skip_verifier(r: &mut Reader<'_>) -> Decoded<()> {
    r.u32("flavor of a verifier")?;
    r.opaque(BODY_MAX, "verifier").map(drop)
}

pub(super) fn expect(r: &mut Reader<'_>, what: &'static str, expected: u32) -> Decoded<()> {
    match r.u32(what)? {
        value if value == expected => Ok(()),
        value => Err(DecodeError::Invalid { what, value: value.into() }),
    }
}
