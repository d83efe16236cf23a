//! Names of users.

use crate::types::EntityName;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::fmt;
use std::str::FromStr;

/// Name that identifies a user to the authentication, like `client.admin`. This is Ceph's `EntityName`; this crate's
/// `EntityName` is Ceph's `entity_name_t`.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthName {
    /// Kind, one of [`EntityName`]'s constants.
    pub kind: u8,
    /// Part after the dot.
    pub id: String,
}

/// Kind of names spelled `auth.` (`CEPH_ENTITY_TYPE_AUTH`).
const AUTH: u8 = 0x20;

const KINDS: [(u8, &str); 6] = [
    (EntityName::MON, "mon"),
    (EntityName::MDS, "mds"),
    (EntityName::OSD, "osd"),
    (EntityName::CLIENT, "client"),
    (EntityName::MGR, "mgr"),
    (AUTH, "auth"),
];

impl AuthName {
    /// Returns the name of a client.
    pub fn client(id: &str) -> Self {
        Self { kind: EntityName::CLIENT, id: id.to_owned() }
    }

    /// Returns the part before the dot.
    pub fn kind_name(&self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("unknown", |(_, name)| name)
    }
}

impl fmt::Display for AuthName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind_name(), self.id)
    }
}

impl FromStr for AuthName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, id) = text.split_once('.').unwrap_or((text, ""));
        let kind = KINDS.iter().find(|(_, name)| *name == kind).map(|(kind, _)| *kind);
        let kind = kind.ok_or_else(|| format!("{text:?} is not a name like client.admin"))?;
        Ok(Self { kind, id: id.to_owned() })
    }
}

impl Decode for AuthName {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let kind = r.u32("auth name kind")?;
        let kind = u8::try_from(kind)
            .map_err(|_| DecodeError::Invalid { what: "auth name kind", value: kind.into() })?;
        Ok(Self { kind, id: r.string("auth name id")? })
    }
}

impl Encode for AuthName {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.kind.into());
        w.string(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_and_parse() {
        for text in ["client.admin", "client.a.b", "osd.0", "mon.", "mgr.x"] {
            assert_eq!(text.parse::<AuthName>().unwrap().to_string(), text);
        }
        assert!("admin".parse::<AuthName>().is_err());
    }
}
