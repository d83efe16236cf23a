use super::done::ReplyTo;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageKey {
    pub(super) index: u32,
    /// Distinguishes this image from earlier ones in the same slot, which may still have work in flight.
    pub(super) generation: u32,
}

/// Commands to an image other than reads and writes.
pub(crate) enum ImageControl {
    /// Takes the exclusive lock and keeps it.
    Lock(ReplyTo),
    HoldLock(ReplyTo),
    ReleaseHold,
    /// Takes the exclusive lock until another client asks for it.
    Own(ReplyTo),
    Fence(ReplyTo),
    Unlock(ReplyTo),
    Refresh(ReplyTo),
    /// Starts a size change; requests past a smaller size fail from now on.
    BeginResize {
        size: u64,
        id: u64,
        done: ReplyTo,
    },
    /// Sets the size in the header and in the object map.
    FinishResize(u64, ReplyTo),
    CancelResize(u64),
    Pause(u32, onego_rbd::PauseKind, ReplyTo),
    Resume(ReplyTo),
    Close(Option<ReplyTo>),
}
