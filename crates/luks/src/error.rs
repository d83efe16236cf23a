//! What can be wrong with a header or a passphrase.

use onego_cipher::xts::KeyError;
use thiserror::Error;

/// What is wrong with a header or a passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// There is no header.
    #[error("there is no LUKS header: format it first")]
    Missing,
    /// More of the header must be read.
    #[error("the LUKS header is cut off: {needed} bytes of it are needed")]
    CutOff {
        /// Bytes from the start.
        needed: u64,
    },
    /// It breaks the specification.
    #[error("the LUKS header is damaged: {0}; restore it from a backup (\"cryptsetup luksHeaderRestore\")")]
    Damaged(&'static str),
    /// It uses something that is not implemented.
    #[error("the LUKS header wants {0}, which is not supported")]
    Unsupported(String),
    /// It asks for more time or memory than honest ones do.
    #[error("the LUKS header asks for {0}: that is more than is spent on a passphrase")]
    TooCostly(String),
    /// No key slot opens with the passphrase.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
    /// The key of the data cannot be used.
    #[error("the LUKS header has a key that cannot be used: {0}")]
    Key(#[from] KeyError),
}
