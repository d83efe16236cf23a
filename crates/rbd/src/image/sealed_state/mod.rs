//! In-flight changes of encrypted data, with the ranges that they hold.

mod holds;

pub(super) use holds::{ChangeKey, Hold, Holds};

use super::running::ObjectPiece;
use crate::encryption::Encryption;
use onego_buf::List;

#[derive(Debug)]
pub(super) struct SealedChange {
    pub(super) kind: SealedKind,
    pub(super) step: SealedStep,
}

#[derive(Debug, Clone)]
pub(super) enum SealedKind {
    Write {
        piece: ObjectPiece,
        plain: List,
    },
    /// Remove all of an object from a sector on.
    Cut {
        object: u64,
        from: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealedStep {
    /// Other changes hold the same sectors.
    Waiting,
    Reading,
    CopyingUp,
    Writing,
}

impl SealedKind {
    pub(super) fn object(&self) -> u64 {
        match self {
            Self::Write { piece, .. } => piece.object,
            Self::Cut { object, .. } => *object,
        }
    }

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
