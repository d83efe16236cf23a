//! The connections of the server: what of them is NBD's.
//!
//! The table bounds what all clients hold together (see [`onego_service::connections`]). Here are the bytes of one connection
//! (`stream`, `tls`, `outbound`), its phases (`connection`, `handshake`, `session`), the requests that are at devices
//! (`in_flight`), and what brings them together (`table`, `work`).

mod connection;
mod error;
mod handshake;
mod in_flight;
mod outbound;
mod session;
mod stream;
mod table;
mod work;

pub(super) use table::NbdConnections;
