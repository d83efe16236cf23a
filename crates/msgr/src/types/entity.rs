//! Names of processes.
//!
//! Source: ceph `src/msg/msg_types.h`.

use super::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Writer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Text that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not {expected}")]
pub struct ParseError {
    /// The text.
    pub text: String,
    /// Expected form, to follow "is not".
    pub expected: &'static str,
}

impl ParseError {
    /// Creates an error for `text`.
    pub fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

/// Name of a process: its kind and number (`entity_name_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityName {
    /// One of this type's constants.
    pub kind: u8,
    /// Rank of a monitor, id of an OSD, or global id of a client. Negative: not known yet.
    pub num: i64,
}

impl EntityName {
    /// A monitor.
    pub const MON: u8 = 0x01;
    /// A metadata server.
    pub const MDS: u8 = 0x02;
    /// An OSD.
    pub const OSD: u8 = 0x04;
    /// A client.
    pub const CLIENT: u8 = 0x08;
    /// A manager.
    pub const MGR: u8 = 0x10;

    const KINDS: [(u8, &'static str); 5] = [
        (Self::MON, "mon"),
        (Self::MDS, "mds"),
        (Self::OSD, "osd"),
        (Self::CLIENT, "client"),
        (Self::MGR, "mgr"),
    ];

    /// Returns the name of the OSD with this id.
    pub fn osd(id: i32) -> Self {
        Self { kind: Self::OSD, num: id.into() }
    }

    /// Returns the name of the monitor with this rank.
    pub fn mon(rank: i64) -> Self {
        Self { kind: Self::MON, num: rank }
    }

    /// Returns the name of the client with this global id.
    pub fn client(global_id: u64) -> Self {
        Self { kind: Self::CLIENT, num: global_id as i64 }
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind =
            Self::KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("unknown", |(_, name)| name);
        if self.num < 0 { write!(f, "{kind}.?") } else { write!(f, "{kind}.{}", self.num) }
    }
}

impl FromStr for EntityName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, "an entity's name like osd.3");
        let (kind, num) = text.split_once('.').ok_or_else(error)?;
        let (kind, _) = Self::KINDS.iter().find(|(_, name)| *name == kind).ok_or_else(error)?;
        Ok(Self { kind: *kind, num: num.parse().map_err(|_| error())? })
    }
}

impl Decode for EntityName {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { kind: r.u8("entity kind")?, num: r.i64("entity number")? })
    }
}

impl Encode for EntityName {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind);
        w.i64(self.num);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_and_parse() {
        assert_eq!("client.4123".parse(), Ok(EntityName::client(4123)));
        assert_eq!(EntityName::osd(3).to_string(), "osd.3");
        assert_eq!(EntityName::mon(-1).to_string(), "mon.?");
        assert!("admin.1".parse::<EntityName>().is_err());
    }
}
