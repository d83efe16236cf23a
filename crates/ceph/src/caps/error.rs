//! Errors of capabilities.

use thiserror::Error;

/// Longest text of capabilities in bytes: enough for one grant for each of a few hundred pools. Bounds parse time and the
/// memory of the grants.
pub const MAX_LEN: usize = 32 << 10;

/// Error of a capability text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CapError {
    /// Syntax error.
    #[error("{service} capability parse failed, stopped at '{rest}' of '{text}'")]
    Syntax {
        /// Service of the capabilities.
        service: &'static str,
        /// Text from the error on.
        rest: String,
        /// Whole text.
        text: String,
    },
    /// The text is too long.
    #[error("{service} capability of {len} bytes exceeds the limit of {MAX_LEN}")]
    TooLong {
        /// Service of the capabilities.
        service: &'static str,
        /// Length in bytes.
        len: usize,
    },
}
