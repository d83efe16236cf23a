//! A client of NBD as a machine: the export of a server as a [device](onego_block::Device).
//!
//! - [`NbdClient`] is the machine. It connects, and connects again when a connection ends: requests without a reply are sent once
//!   more, for as long as [`Config::patience`] says.
//! - [`NbdClient::device`] is the device, and [`NbdClient::opened`] says when it may be used.
//!
//! What may be lost is never said to be safe: a server that was away may have restarted, and lost what it had acknowledged and
//! not flushed. The next flush fails then, once, as that of a file does after a write error.

mod config;
mod device;
mod error;
mod link;
mod machine;
mod negotiation;
mod pending;
mod reading;
mod replies;
mod tls;

pub use config::{Config, Endpoint};
pub use device::Opened;
pub use error::{ClientError, OldHandshake};
pub use machine::NbdClient;
pub use tls::ClientTls;
