/// Category of an error, the same for all clients. Match on it to handle an error; display the error itself to show
/// what was tried and what may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call or the configuration is invalid, regardless of the peer's state.
    InvalidInput,
    /// A named object, image, file or pool does not exist.
    NotFound,
    /// The object, image, file or pool to create already exists.
    AlreadyExists,
    /// The resource is in use by other clients.
    Busy,
    /// The peer denied access, or could not authenticate the user.
    PermissionDenied,
    /// No space left: a full cluster, pool or disk, or an exhausted quota.
    NoSpace,
    /// This client or the peer does not support the operation.
    Unsupported,
    /// A condition of the request, or on the object's state, does not hold.
    FailedPrecondition,
    /// The peer refused for another reason.
    Refused,
    /// No answer arrived in time. The change may still have been made.
    TimedOut,
    /// The peer is unreachable, or the connection broke. The change may still have been made.
    Disconnected,
    /// The peer violated the protocol.
    Protocol,
    /// The operating system refused a resource.
    System,
    /// The program closed the client or cancelled the request.
    Closed,
}

impl ErrorKind {
    /// Returns whether the same call may succeed later without intervention: true for [`Busy`](Self::Busy),
    /// [`TimedOut`](Self::TimedOut) and [`Disconnected`](Self::Disconnected).
    ///
    /// A request that timed out or lost its connection may have taken effect. Rewriting the same bytes at the same
    /// place is harmless, but a repeated append may duplicate data, and a repeated exclusive creation may find its
    /// own result. Clients resend in-flight requests themselves after a connection breaks; callers see these errors
    /// only when that failed, so wait before retrying.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::TimedOut | Self::Disconnected)
    }
}
