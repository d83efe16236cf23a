use onego_rbd::Misfit;
use thiserror::Error;

/// Reason why the encryption of an image cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncryptionError {
    /// The header or the passphrase is wrong.
    #[error(transparent)]
    Luks(#[from] onego_luks::Error),
    /// The header does not fit the image.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// The image uses the other LUKS version than the caller specified.
    #[error("the header has the other LUKS version")]
    OtherVersion,
    /// More passphrases than images were given.
    #[error("{specs} passphrases given, but the image has {ancestors} ancestors")]
    TooMany {
        /// Passphrases given.
        specs: usize,
        /// Ancestors of the image.
        ancestors: usize,
    },
    /// Encryption is already loaded.
    #[error("encryption is already loaded")]
    Loaded,
}
