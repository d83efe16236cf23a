//! A server of the Network Block Device protocol.
//!
//! Comments cite the specification, `doc/proto.md` of the repository NetworkBlockDevice/nbd, as "nbd proto.md,
//! 'Section name'"; for extended headers that of its branch `extension-ext-header`.
//!
//! - [`Server`] is the machine: listeners, [exports](Export), connections.
//! - `connections` has the phases of a connection, from the bytes to the requests that are at devices.
//! - [`onego_nbd::codec`] has the messages, for servers and clients alike.
//! - `limits` has what clients may hold, and why not more.

mod config;
mod connections;
mod counters;
mod exports;
mod limits;
mod refusal;
mod server;
mod tls;

pub use config::Config;
pub use counters::Counters;
pub use exports::{Export, ExportError, kernel_info};
pub use limits::EXPORTS_MAX;
pub use onego_nbd::tls::TlsError;
pub use server::Server;
pub use tls::Tls;
