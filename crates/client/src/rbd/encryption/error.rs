//! Why the encryption of an image cannot be used.

use crate::ceph::error::Errno;
use crate::error_kind::ErrorKind;
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

impl EncryptionError {
    /// The number by which librbd says so.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Luks(onego_luks::Error::WrongPassphrase) => Errno::PERM,
            Self::Luks(onego_luks::Error::Unsupported(_) | onego_luks::Error::TooCostly(_)) => {
                Errno::OPNOTSUPP
            }
            Self::Misfit(Misfit::Size { .. }) => Errno::NOSPC,
            Self::Loaded => Errno::EXIST,
            Self::Luks(_) | Self::Misfit(_) | Self::OtherVersion | Self::TooMany { .. } => Errno::INVAL,
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Luks(onego_luks::Error::WrongPassphrase) => ErrorKind::PermissionDenied,
            Self::Luks(onego_luks::Error::Unsupported(_) | onego_luks::Error::TooCostly(_)) => {
                ErrorKind::Unsupported
            }
            Self::TooMany { .. } | Self::Loaded => ErrorKind::InvalidInput,
            Self::Luks(_) | Self::Misfit(_) | Self::OtherVersion => ErrorKind::FailedPrecondition,
        }
    }
}
