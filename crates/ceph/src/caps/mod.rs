//! Capabilities: what somebody may do, in the words that `ceph auth caps` takes, one text a service.
//!
//! Source for the grammar and for what is allowed by what: ceph `src/mon/MonCap.cc`, `src/osd/OSDCap.cc`; for the words
//! that users write, `doc/rados/operations/user-management.rst`.
//!
//! A text is parsed once, when its owner's session begins; [`OsdCap::in_pool`] then makes what an OSD looks at for each
//! request.

mod mon;
mod network;
mod osd;
mod scan;

pub use mon::{MonAccess, MonCap};
pub use osd::{Call, OsdAccess, OsdCap, Place, PoolGrants};

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

/// Reads grants that are divided by `,` or `;`, with white space around them.
fn parse_grants<T>(
    service: &'static str,
    text: &str,
    mut grant: impl FnMut(&mut scan::Scanner<'_>) -> Option<T>,
) -> Result<Vec<T>, CapError> {
    if text.len() > MAX_LEN {
        return Err(CapError::TooLong { service, len: text.len() });
    }
    let mut scanner = scan::Scanner::new(text);
    let mut grants = Vec::new();
    loop {
        scanner.skip_spaces();
        let Some(one) = scanner.attempt(&mut grant) else { break };
        grants.push(one);
        scanner.skip_spaces();
        if scanner.is_at_end() {
            return Ok(grants);
        }
        if !(scanner.literal(",") || scanner.literal(";")) {
            break;
        }
    }
    Err(CapError::Syntax { service, rest: scanner.rest().to_owned(), text: text.to_owned() })
}
