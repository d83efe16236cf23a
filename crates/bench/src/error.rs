use std::io;
use thiserror::Error;

/// Error of a measurement.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the Ceph client.
    #[error(transparent)]
    Client(#[from] onego::ceph::Error),
    /// Error of the NFS client.
    #[error(transparent)]
    Nfs(#[from] onego::nfs::Error),
    /// Error of the operating system.
    #[error("{what}: {source}")]
    Io {
        /// The failed action.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The thresholds of zero-copy sends are unusable.
    #[error(transparent)]
    Thresholds(#[from] onego_engine::zero_copy::BadThresholds),
    /// The requested parameters are inconsistent.
    #[error("{0}")]
    Unfit(String),
    /// The other half of a measurement, or the connection to it, failed.
    #[error("{0}")]
    Failed(String),
    /// The user has interrupted the measurement.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a converter that adds the failed action to a system error.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
