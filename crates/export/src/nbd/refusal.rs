//! Why a request is not carried out, or has failed.

use onego_block::Error;
use onego_nbd::codec::{CommandFlags, ErrorCode, RequestHeader, RequestType};
use std::borrow::Cow;

/// The error of a request, as the server sends it to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    /// What to show a user; only structured replies have it.
    pub(super) message: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, message: &'static str) -> Self {
        Self { code, message: Cow::Borrowed(message) }
    }

    pub(super) fn invalid(message: &'static str) -> Self {
        Self::new(ErrorCode::Invalid, message)
    }

    /// A device has failed to carry out a request (nbd proto.md, 'Error values').
    pub(super) fn of(error: &Error, request: &RequestHeader) -> Self {
        let code = match error {
            Error::OutOfBounds { .. } if writes(request.command) => ErrorCode::NoSpace,
            Error::OutOfBounds { .. } | Error::TooLong { .. } | Error::Unaligned { .. } => ErrorCode::Invalid,
            Error::ReadOnly | Error::NotPermitted(_) => ErrorCode::Permission,
            // Nobody but clients that ask for fast zeroes expects this error.
            Error::Unsupported(_) if request.flags.contains(CommandFlags::FAST_ZERO) => {
                ErrorCode::NotSupported
            }
            Error::Unsupported(_) => ErrorCode::Invalid,
            Error::NoSpace(_) => ErrorCode::NoSpace,
            Error::Dropped => ErrorCode::Shutdown,
            _ => ErrorCode::Io,
        };
        Self { code, message: Cow::Owned(error.to_string()) }
    }
}

/// Does a request put bytes on the device, so that one behind the end lacks space?
pub(super) fn writes(command: RequestType) -> bool {
    matches!(command, RequestType::Write | RequestType::WriteZeroes)
}
