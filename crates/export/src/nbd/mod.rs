//! A server of the Network Block Device protocol.
//!
//! Comments cite the specification, `doc/proto.md` of the repository NetworkBlockDevice/nbd, as "nbd proto.md,
//! 'Section name'"; for extended headers that of its branch `extension-ext-header`.
//!
//! - [`codec`] has the messages, for servers and clients alike.

pub mod codec;
