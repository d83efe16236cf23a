//! What errors of all clients have in common.

/// What an error is about, the same for all clients. A program that acts on errors acts on this; a program that shows
/// them shows the error itself, which says what was tried and what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call or the configuration makes no sense, whatever the state of the peer.
    InvalidInput,
    /// Something that is named does not exist.
    NotFound,
    /// Something that is to be created exists.
    AlreadyExists,
    /// Something is in use by others.
    Busy,
    /// The peer does not let this user do it, or does not believe who the user is.
    PermissionDenied,
    /// There is no room: a full cluster, pool or disk, or a quota that is used up.
    NoSpace,
    /// This client or the peer cannot do it.
    Unsupported,
    /// A condition that the request states, or an object's state, does not hold.
    FailedPrecondition,
    /// The peer refused for another reason.
    Refused,
    /// Nothing has come in time. A change may have been made all the same.
    TimedOut,
    /// The peer cannot be reached, or the connection broke. A change may have been made all the same.
    Disconnected,
    /// The peer broke the protocol.
    Protocol,
    /// This machine refused a resource.
    System,
    /// This program has closed the client, or taken the request back.
    Closed,
}

impl ErrorKind {
    /// May the same call succeed a moment later without anybody changing anything? True for what is
    /// [`Busy`](Self::Busy), [`TimedOut`](Self::TimedOut) or [`Disconnected`](Self::Disconnected).
    ///
    /// A request that has timed out or lost its connection may have been carried out: to write the same bytes to the same
    /// place again does no harm, but an append may then be there twice, and an exclusive creation may find what it created
    /// itself. Clients resend by themselves what was in flight when a connection broke; the caller sees these errors only
    /// when that has not helped, so wait before the next try.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::TimedOut | Self::Disconnected)
    }
}
