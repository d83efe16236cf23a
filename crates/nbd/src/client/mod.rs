//! NBD client: accesses a server's export as a [device](onego_block::Device).
//!
//! - [`NbdClient`] is the state machine. It reconnects when a connection ends, and resends requests without a reply for
//!   up to [`Config::patience`].
//! - [`NbdClient::device`] returns the device, and [`NbdClient::opened`] waits until it is usable.
//!
//! The client never reports data as durable that may be lost. A server that was unreachable may have restarted and lost
//! acknowledged writes that were not flushed. The next flush then fails, once, like `fsync` on a file after a write
//! error.

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
