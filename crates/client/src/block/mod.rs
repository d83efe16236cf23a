//! Block devices of this crate's clients, and exports of them, all on one thread.
//!
//! A [`Host`] drives an export (a server of NBD, say) and the clients that the devices under it need as one machine: a
//! request goes from the export's connection to the one of the cluster without a queue between threads.

mod error;
mod file;
mod host;
mod image;
mod nbd;

pub use host::Host;
pub use nbd::{NbdError, NbdUrl};
pub use onego_block::*;
pub use onego_nbd::client::ClientError;
