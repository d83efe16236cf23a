use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason that a path cannot be opened as a disk.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A system call failed.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
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
    /// The path is another kind of file.
    #[error("{0} is neither a file nor a block device")]
    Kind(PathBuf),
    /// Another process holds a lock.
    #[error("{0} is in use by another process or mounted: stop that first, or open it read-only")]
    Busy(PathBuf),
}
