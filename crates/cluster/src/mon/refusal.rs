//! Why the monitor does not do what it is asked to.

use crate::errno::{EINVAL, ENOENT};

/// Why a command, or another change, was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} ({errno})")]
pub(crate) struct Refusal {
    /// A negative error number.
    pub(crate) errno: i32,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(EINVAL, text)
    }

    pub(crate) fn missing(text: impl Into<String>) -> Self {
        Self::new(ENOENT, text)
    }
}
