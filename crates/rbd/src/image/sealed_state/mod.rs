//! Changes of encrypted data under way, and which bytes they hold.

mod holds;

pub(super) use holds::{ChangeKey, Hold, Holds};

use super::running::ObjectPiece;
use crate::encryption::Encryption;
use onego_buf::List;

/// A change of an object whose data is encrypted.
#[derive(Debug)]
pub(super) struct SealedChange {
    pub(super) kind: SealedKind,
    pub(super) step: SealedStep,
}

#[derive(Debug, Clone)]
pub(super) enum SealedKind {
    /// Bytes are written.
    Write { piece: ObjectPiece, plain: List },
    /// All of an object from a sector on is given up.
    Cut { object: u64, from: u64 },
}

/// How far a change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealedStep {
    /// Others change the same sectors.
    Waiting,
    /// The sectors are read in which it begins or ends.
    Reading,
    /// The parent's bytes are copied into the object first.
    CopyingUp,
    /// It is on its way.
    Writing,
}

impl SealedKind {
    pub(super) fn object(&self) -> u64 {
        match self {
            Self::Write { piece, .. } => piece.object,
            Self::Cut { object, .. } => *object,
        }
    }

    /// The bytes of the object that it touches.
    pub(super) fn hold(&self, encryption: &Encryption) -> Hold {
        match self {
            Self::Write { piece, .. } => {
                let written = piece.offset..piece.offset + piece.length;
                let range = encryption.aligned(written.clone());
                Hold { is_exclusive: range != written, range }
            }
            Self::Cut { from, .. } => Hold { range: *from..u64::MAX, is_exclusive: true },
        }
    }
}
