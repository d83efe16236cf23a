use crate::error_kind::ErrorKind;
use onego_block::Error;

/// Converts an error of the cluster client to one of a device.
pub(crate) fn block_error(error: &crate::ceph::Error) -> Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::NoSpace => Error::NoSpace(text),
        ErrorKind::PermissionDenied => Error::NotPermitted(text),
        ErrorKind::TimedOut => Error::TimedOut(text),
        _ => Error::Failed(text),
    }
}
