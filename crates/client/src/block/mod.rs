//! Block devices of this crate's clients, and exports of them, all on one thread.
//!
//! A [`Host`] drives an export (a server of NBD, say) and the clients that the devices under it need as one machine: a
//! request goes from the export's connection to the one of the cluster without a queue between threads.

mod error;
mod host;
mod image;

pub use host::Host;
pub use onego_block::*;
