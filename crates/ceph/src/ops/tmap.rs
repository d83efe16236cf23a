//! Legacy maps that are stored as an object's data, such as the directory of images of format 1.
//!
//! The data is a header, followed by a map of keys and values. [`Op::TmapUpdate`](super::Op::TmapUpdate) carries concatenated
//! commands without a count.
//!
//! Sources: ceph `src/include/rados.h` (`CEPH_OSD_TMAP_*`), `src/osd/PrimaryLogPG.cc` (do_tmapup).

use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

mod code {
    pub(super) const SET_HEADER: u8 = b'h';
    pub(super) const SET: u8 = b's';
    pub(super) const CREATE: u8 = b'c';
    pub(super) const REMOVE: u8 = b'r';
    pub(super) const REMOVE_IF_THERE: u8 = b'R';
}

/// Minimum length of an entry: the lengths of its key and its value.
const MIN_ENTRY: usize = 8;

/// Header, and values by key, borrowed from the encoded bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tmap<'a> {
    /// Header, before the entries.
    pub header: &'a [u8],
    /// Entries.
    pub entries: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Tmap<'a> {
    /// Decodes a map that takes up all of `bytes`. The last of several values of a key counts.
    pub fn decode(bytes: &'a [u8]) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let header = r.blob("header of a map")?;
        let count = r.count(MIN_ENTRY, "entries of a map")?;
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let key = r.blob("key of a map")?;
            entries.insert(key, r.blob("value of a map")?);
        }
        r.finish("map")?;
        Ok(Self { header, entries })
    }

    /// Encodes the map as an object's data, sorted by key.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.blob(self.header);
        w.count(self.entries.len());
        for (key, value) in &self.entries {
            w.blob(key);
            w.blob(value);
        }
        w.into_vec()
    }
}

/// Change of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TmapCommand<'a> {
    SetHeader {
        header: &'a [u8],
    },
    Set {
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Fails with EEXIST if the key exists.
    Create {
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Fails with ENOENT if the key does not exist.
    Remove {
        key: &'a [u8],
    },
    RemoveIfThere {
        key: &'a [u8],
    },
}

impl<'a> TmapCommand<'a> {
    /// Decodes a command.
    pub fn decode(r: &mut Reader<'a>) -> Decoded<Self> {
        let code = r.u8("command")?;
        let subject = r.blob("header or key of a command")?;
        let mut value = || r.blob("value of a command");
        Ok(match code {
            code::SET_HEADER => Self::SetHeader { header: subject },
            code::SET => Self::Set { key: subject, value: value()? },
            code::CREATE => Self::Create { key: subject, value: value()? },
            code::REMOVE => Self::Remove { key: subject },
            code::REMOVE_IF_THERE => Self::RemoveIfThere { key: subject },
            _ => return Err(DecodeError::Invalid { what: "command", value: code.into() }),
        })
    }

    /// Appends the encoded command.
    pub fn encode(&self, w: &mut Writer) {
        let (code, subject, value) = match *self {
            Self::SetHeader { header } => (code::SET_HEADER, header, None),
            Self::Set { key, value } => (code::SET, key, Some(value)),
            Self::Create { key, value } => (code::CREATE, key, Some(value)),
            Self::Remove { key } => (code::REMOVE, key, None),
            Self::RemoveIfThere { key } => (code::REMOVE_IF_THERE, key, None),
        };
        w.u8(code);
        w.blob(subject);
        if let Some(value) = value {
            w.blob(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_sorted_and_the_last_value_of_a_key_counts() {
        let bytes =
            b"\x01\0\0\0h\x03\0\0\0\x01\0\0\0b\x01\0\0\x001\x01\0\0\0a\0\0\0\0\x01\0\0\0b\x01\0\0\x002";
        let map = Tmap::decode(bytes).unwrap();
        let entries: [(&[u8], &[u8]); 2] = [(b"a", b""), (b"b", b"2")];
        assert_eq!(map, Tmap { header: b"h", entries: entries.into() });
        let sorted = b"\x01\0\0\0h\x02\0\0\0\x01\0\0\0a\0\0\0\0\x01\0\0\0b\x01\0\0\x002";
        assert_eq!(map.to_bytes(), sorted);
        assert_eq!(Tmap::default().to_bytes(), [0; 8]);
    }

    #[test]
    fn truncated_maps_and_trailing_bytes_are_rejected() {
        let bytes = b"\x01\0\0\0h\x01\0\0\0\x01\0\0\0b\x01\0\0\x001";
        assert!(Tmap::decode(bytes).is_ok());
        for len in 0..bytes.len() {
            assert!(Tmap::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let more = [&bytes[..], b"x"].concat();
        assert_eq!(Tmap::decode(&more), Err(DecodeError::Trailing { what: "map", left: 1 }));
    }

    #[test]
    fn a_count_is_bounded_by_the_remaining_bytes() {
        let bytes = [&[0; 4][..], &3u32.to_le_bytes(), &[0; 16]].concat();
        let too_many = DecodeError::OverBound { what: "entries of a map", value: 3, bound: 2 };
        assert_eq!(Tmap::decode(&bytes), Err(too_many));
    }

    #[test]
    fn commands_survive_a_round_trip_unless_truncated() {
        let (key, value) = (&b"key"[..], &b"value"[..]);
        for (command, bytes) in [
            (TmapCommand::SetHeader { header: key }, &b"h\x03\0\0\0key"[..]),
            (TmapCommand::Set { key, value }, b"s\x03\0\0\0key\x05\0\0\0value"),
            (TmapCommand::Create { key, value }, b"c\x03\0\0\0key\x05\0\0\0value"),
            (TmapCommand::Remove { key }, b"r\x03\0\0\0key"),
            (TmapCommand::RemoveIfThere { key }, b"R\x03\0\0\0key"),
        ] {
            let mut w = Writer::new();
            command.encode(&mut w);
            assert_eq!(w.as_slice(), bytes);
            let mut r = Reader::new(bytes);
            assert_eq!(TmapCommand::decode(&mut r), Ok(command));
            assert!(r.is_empty());
            for len in 0..bytes.len() {
                assert!(TmapCommand::decode(&mut Reader::new(&bytes[..len])).is_err(), "{len} bytes");
            }
        }
        let unknown = TmapCommand::decode(&mut Reader::new(b"x\0\0\0\0"));
        assert_eq!(unknown, Err(DecodeError::Invalid { what: "command", value: b'x'.into() }));
    }
}
