use crate::error_kind::ErrorKind;
use onego_block::Error;
use std::fmt::Display;

/// An error of a protocol's client as the one of a device.
pub(crate) fn block_error<E: Display + Kind>(error: &E) -> Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NoSpace => Error::NoSpace(text),
        ErrorKind::PermissionDenied => Error::NotPermitted(text),
        ErrorKind::TimedOut => Error::TimedOut(text),
        _ => Error::Failed(text),
    }
}

/// An error that has a kind.
pub(crate) trait Kind {
    fn kind(&self) -> ErrorKind;
}

impl Kind for crate::ceph::Error {
    fn kind(&self) -> ErrorKind {
        Self::kind(self)
    }
}
