//! Why a cluster cannot be kept, or not be restored.

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
    /// It belongs to another program.
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
        /// Its name; that of a log ends with a number that is not known.
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
