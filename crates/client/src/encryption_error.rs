//! Why the encryption of an image cannot be used.

use onego_rbd::Misfit;
use thiserror::Error;

/// Why the encryption of an image cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncryptionError {
    /// The header or the passphrase is wrong.
    #[error(transparent)]
    Luks(#[from] onego_luks::Error),
    /// The header does not fit the image.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The image is formatted in the other way than the caller says.
    #[error("its header is one of the other version of LUKS")]
    OtherVersion,
    /// There are more passphrases than images.
    #[error("{specs} passphrases are given, and it has {ancestors} ancestors")]
    TooMany {
        /// Passphrases.
        specs: usize,
        /// Ancestors of the image.
        ancestors: usize,
    },
    /// Encryption is loaded already.
    #[error("its encryption is loaded already")]
    Loaded,
}
