//! Why a text gives no capabilities.

use thiserror::Error;

/// Longest text of capabilities, bytes. One with a grant for each of a few hundred pools fits; the time to parse a text
/// and the memory that its grants take are bounded by it.
pub const MAX_LEN: usize = 32 << 10;

/// Why a text gives no capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CapError {
    /// What comes next has no meaning.
    #[error("{service} capability parse failed, stopped at '{rest}' of '{text}'")]
    Syntax {
        /// Whose capabilities it was to be.
        service: &'static str,
        /// What was not understood.
        rest: String,
        /// The whole.
        text: String,
    },
    /// It is too long.
    #[error("{service} capability has {len} bytes, the bound is {MAX_LEN}")]
    TooLong {
        /// Whose capabilities it was to be.
        service: &'static str,
        /// How long it is.
        len: usize,
    },
}
