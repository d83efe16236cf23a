use crate::error_kind::ErrorKind;
use onego_block::Error;

pub(crate) fn block_error(error: &crate::ceph::Error) -> Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NoSpace => Error::NoSpace(text),
        ErrorKind::PermissionDenied => Error::NotPermitted(text),
        ErrorKind::TimedOut => Error::TimedOut(text),
        _ => Error::Failed(text),
    }
}
