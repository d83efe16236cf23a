//! Block devices of this crate's clients, and exports of them, all on one thread.
//!
//! A [`Host`] drives an export (an NBD server, for example) and the clients of its devices as one machine: a request
//! passes from the export's connection to the cluster's without a queue between threads.

mod error;
mod file;
mod host;
mod image;
mod nbd;

pub use host::Host;
pub use nbd::{NbdError, NbdUrl};
pub use onego_block::*;
pub use onego_nbd::client::ClientError;
