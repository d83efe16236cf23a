//! How an open image is named, and what can be asked of it.

use super::done::ReplyTo;

/// Names an open image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageKey {
    pub(super) index: u32,
    /// What is still under way for an image that had the same place has another number.
    pub(super) generation: u32,
}

/// What can be asked of an image beside reads and writes.
pub(crate) enum ImageControl {
    /// Takes the exclusive lock and keeps it.
    Lock(ReplyTo),
    /// Takes the exclusive lock for an operation.
    HoldLock(ReplyTo),
    /// Ends an operation that holds the lock.
    ReleaseHold,
    /// Takes the exclusive lock until another client asks for it.
    Own(ReplyTo),
    /// Has all I/O fail.
    Fence(ReplyTo),
    /// Lets the exclusive lock go.
    Unlock(ReplyTo),
    /// Reads the header again.
    Refresh(ReplyTo),
    /// Begins to change the size: requests past a smaller one fail from then on.
    BeginResize {
        /// Bytes.
        size: u64,
        /// Chosen by the caller.
        id: u64,
        done: ReplyTo,
    },
    /// Sets the size in the header and in the object map.
    FinishResize(u64, ReplyTo),
    /// Ends a size change whose caller gave up.
    CancelResize(u64),
    /// Gives an operation with a number the image to itself.
    Pause(u32, onego_rbd::PauseKind, ReplyTo),
    /// Ends a pause.
    Resume(ReplyTo),
    /// Closes the image.
    Close(Option<ReplyTo>),
}
