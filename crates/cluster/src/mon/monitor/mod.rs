//! The monitor itself, without the messages that clients send to it.

mod blocklist;
mod boot;
mod logging;
pub(super) mod pools;
mod reports;
mod snapshots;
mod state;
mod subscriptions;

pub use pools::NewPool;
pub(crate) use pools::default_size;
pub(crate) use state::{Identity, Mon, Outgoing};
