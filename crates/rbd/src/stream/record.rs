//! What a diff consists of, and how it is written.

use onego_wire::text;

/// Most bytes of a snapshot's name or of a key, as Ceph's importer bounds them.
pub const MAX_NAME: u64 = 4096;

/// The two forms of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffVersion {
    /// What `rbd export-diff` writes.
    V1,
    /// What an exported image consists of: each record says how long it is.
    V2,
}

impl DiffVersion {
    /// What a diff begins with.
    pub fn banner(self) -> &'static str {
        match self {
            Self::V1 => "rbd diff v1\n",
            Self::V2 => "rbd diff v2\n",
        }
    }
}

/// First bytes of records.
pub(super) mod tag {
    pub(in super::super) const FROM: u8 = b'f';
    pub(in super::super) const TO: u8 = b't';
    pub(in super::super) const PROTECTED: u8 = b'p';
    pub(in super::super) const SIZE: u8 = b's';
    pub(in super::super) const WRITE: u8 = b'w';
    pub(in super::super) const ZERO: u8 = b'z';
    pub(in super::super) const END: u8 = b'e';
}

/// A record of a diff. Those that say what the diff is of come before those with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffRecord {
    /// The snapshot that the diff begins at; none: it begins with nothing.
    From(String),
    /// The snapshot that the diff ends at; none: it ends at the image as it was.
    To(String),
    /// Is the snapshot at its end protected? In version 2 alone.
    Protected(bool),
    /// Bytes of the image at the diff's end.
    Size(u64),
    /// `length` bytes at `offset` are those that follow the record.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// `length` bytes at `offset` are zeros. They may be more than an object has.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// The diff is over.
    End,
}

impl DiffRecord {
    /// Writes the record; the data of [`Write`](Self::Write) follows it.
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

/// A length of 32 bits, and as many bytes.
pub(super) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}
