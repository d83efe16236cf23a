use std::io;
use thiserror::Error;

/// Why something could not be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The client could not do something.
    #[error(transparent)]
    Client(#[from] onego::ceph::Error),
    /// The client of a file server could not do something.
    #[error(transparent)]
    Nfs(#[from] onego::nfs::Error),
    /// The machine refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The thresholds of zero-copy sends cannot be used.
    #[error(transparent)]
    Thresholds(#[from] onego_engine::zero_copy::BadThresholds),
    /// What was asked for does not fit together.
    #[error("{0}")]
    Unfit(String),
    /// The other half of a measurement, or the way to it, failed.
    #[error("{0}")]
    Failed(String),
    /// The user has had enough.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Says what was tried when the machine refused it.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
