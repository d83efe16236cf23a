//! What a cluster keeps over the end of its process: a log of all that changes, and checkpoints.
//!
//! The stores stay in memory; nothing is ever read from the files but at a start. Every change is a record (`record`,
//! `entry`) in one log that the monitor and all OSDs share, so that a write to several OSDs is one record, and whatever
//! rests on an earlier change stands behind it. An answer is held back until the log is durable up to what it rests on
//! (`log`). Once a log is long enough, all that there is goes into a checkpoint (`snapshot`), and the log before it is
//! removed.
//!
//! The logic has no I/O: [`ClusterMachine`](crate::ClusterMachine) gives [`Job`]s and is told what is [`Done`]; [`Writer`]
//! carries them out on any [`Files`]. A start reads the newest checkpoint and does again what the logs since say
//! ([`Restored`]).

mod direct;
mod entry;
mod files;
mod load;
mod log;
mod record;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use entry::{Entry, Life, MapBytes, MonSettings};
pub(crate) use files::Directory;
pub use files::Files;
pub use load::Restored;
pub use log::{Append, Done, Job};
pub(crate) use log::{Held, Journal};
pub use record::BLOCK;
pub use snapshot::Snapshot;
pub use writer::{Writer, write_checkpoint};

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// The directory cannot be opened or made.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was to be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is somebody else's.
    #[error(
        "{path} is not empty and not the data directory of a cluster: name another one, which need not exist yet"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// Another cluster uses it.
    #[error("{path} is in use by another cluster: stop that one first, or name another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Another version has made it.
    #[error(
        "{path} has the format {found:?}, but this version knows {known:?} alone: use the version that made it"
    )]
    Format {
        /// The directory.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What it would have to say.
        known: &'static str,
    },
    /// What is in a file was changed after it had been made durable.
    #[error(
        "{file} is damaged at offset {offset}: {what}. Bring the directory back from a copy; without one, move it away and \
         start anew: what was in it cannot be relied on"
    )]
    Corrupt {
        /// The file, in the directory.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A file is not there.
    #[error("{file} is missing from the directory: bring it back from a copy")]
    Missing {
        /// The file.
        file: String,
    },
    /// What is kept needs more memory than there may be.
    #[error(
        "osd.{osd} holds more than the {limit} bytes of memory that it may take: all data is held in memory, so start \
         with more (it was {was} bytes the last time)"
    )]
    TooLarge {
        /// The OSD.
        osd: usize,
        /// Bytes that it may take.
        limit: u64,
        /// Bytes that it could take when the cluster ran last.
        was: u64,
    },
    /// A file cannot be used.
    #[error("cannot {what} {file}: {source}")]
    File {
        /// What was to be done.
        what: &'static str,
        /// With what.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// The files cannot be used.
    #[error("{what} failed: {source}")]
    Files {
        /// What was done.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The directory is of a cluster that is not as this one is to be.
    #[error(
        "the directory is of a cluster {found}, not {wanted}: leave that option out, or name another directory"
    )]
    Differs {
        /// How the cluster is.
        found: String,
        /// How it is to be.
        wanted: String,
    },
}
