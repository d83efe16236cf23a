//! Records of a diff, and their encoding.

use onego_wire::text;

/// Longest snapshot name or key in bytes; the bound of Ceph's importer.
pub const MAX_NAME: u64 = 4096;

/// Version of a diff's encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffVersion {
    /// Written by `rbd export-diff`.
    V1,
    /// Part of an exported image: each record has its length.
    V2,
}

impl DiffVersion {
    /// Returns the first bytes of a diff.
    pub fn banner(self) -> &'static str {
        match self {
            Self::V1 => "rbd diff v1\n",
            Self::V2 => "rbd diff v2\n",
        }
    }
}

pub(super) mod tag {
    pub(in super::super) const FROM: u8 = b'f';
    pub(in super::super) const TO: u8 = b't';
    pub(in super::super) const PROTECTED: u8 = b'p';
    pub(in super::super) const SIZE: u8 = b's';
    pub(in super::super) const WRITE: u8 = b'w';
    pub(in super::super) const ZERO: u8 = b'z';
    pub(in super::super) const END: u8 = b'e';
}

/// Record of a diff. Header records precede data records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffRecord {
    /// Snapshot at the diff's start; none: the diff starts from nothing.
    From(String),
    /// Snapshot at the diff's end; none: the diff ends at the current image.
    To(String),
    /// Whether the snapshot at its end is protected. Version 2 only.
    Protected(bool),
    /// Size of the image at the diff's end, in bytes.
    Size(u64),
    /// The `length` bytes at `offset`; they follow the record.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// The `length` bytes at `offset` are zeros. They may span objects.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// End of the diff.
    End,
}

impl DiffRecord {
    /// Encodes the record; the data of [`Write`](Self::Write) follows it.
    pub fn encode(&self, version: DiffVersion, out: &mut Vec<u8>) {
        match self {
            Self::From(name) => named(tag::FROM, name, version, out),
            Self::To(name) => named(tag::TO, name, version, out),
            Self::Protected(is) => {
                begin(tag::PROTECTED, 1, version, out);
                out.push(u8::from(*is));
            }
            Self::Size(size) => {
                begin(tag::SIZE, 8, version, out);
                out.extend(size.to_le_bytes());
            }
            Self::Write { offset, length } => {
                begin(tag::WRITE, 16 + length, version, out);
                out.extend(offset.to_le_bytes());
                out.extend(length.to_le_bytes());
            }
            Self::Zero { offset, length } => {
                begin(tag::ZERO, 16, version, out);
                out.extend(offset.to_le_bytes());
                out.extend(length.to_le_bytes());
            }
            Self::End => out.push(tag::END),
        }
    }
}

fn begin(tag: u8, length: u64, version: DiffVersion, out: &mut Vec<u8>) {
    out.push(tag);
    if version == DiffVersion::V2 {
        out.extend(length.to_le_bytes());
    }
}

fn named(tag: u8, name: &str, version: DiffVersion, out: &mut Vec<u8>) {
    let name = text::to_bytes(name);
    begin(tag, 4 + name.len() as u64, version, out);
    string(&name, out);
}

pub(super) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}
