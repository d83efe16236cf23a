//! The Network Block Device protocol, without sockets.
//!
//! Comments cite the specification, `doc/proto.md` of the repository NetworkBlockDevice/nbd, as "nbd proto.md,
//! 'Section name'"; for extended headers that of its branch `extension-ext-header`.
#![forbid(unsafe_code)]

pub mod codec;
