//! What a cluster keeps over the end of its process: a log of all that changes, and checkpoints.
//!
//! The stores stay in memory; nothing is ever read from the files but at a start. Every change is a record (`record`,
//! `entry`) in one log that the monitor and all OSDs share, so that a write to several OSDs is one record, and whatever
//! depends on an earlier change stands behind it. A reply is held until the log is durable up to what it depends on
//! (`log`). Once a log is long enough, all that there is goes into a checkpoint (`snapshot`), and the log before it is
//! removed.
//!
//! The logic has no I/O: [`ClusterMachine`](crate::ClusterMachine) gives [`Job`]s and takes what is [`Done`]; [`Writer`]
//! carries them out on any [`Files`]. A start reads the newest checkpoint and does again what the logs since say
//! ([`Restored`]).

mod direct;
mod entry;
mod error;
mod files;
mod load;
mod log;
mod record;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use entry::{Entry, Life};
pub use error::DataError;
pub(crate) use files::Directory;
pub use files::{Files, LogId};
pub use load::Restored;
pub use log::{Append, Done, Job};
pub(crate) use log::{Counted, Held, Journal};
pub use record::BLOCK;
pub use snapshot::Snapshot;
pub use writer::{Writer, write_checkpoint};
pub(crate) use writer::{discard_checkpoint, is_refused_space};
