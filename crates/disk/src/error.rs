use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a path is not opened as a disk.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// What was to be opened.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A qcow2 file cannot be read or made.
    #[error("{path} (qcow2): {source}")]
    Container {
        /// The file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// A qcow2 file needs another file.
    #[error("{path} (qcow2) needs the bytes of {named:?}, a file that it names")]
    Backing {
        /// The file.
        path: PathBuf,
        /// The name in it.
        named: String,
    },
    /// It is of another kind.
    #[error("{0} is neither a file nor a block device")]
    Kind(PathBuf),
    /// Another process has it.
    #[error(
        "{0} is in use: another process reads or writes it, or it is mounted; end that first, or open it read-only"
    )]
    Busy(PathBuf),
}
