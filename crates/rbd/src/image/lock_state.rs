//! State of an image's exclusive lock.

use onego_ceph::cls::lock::LockerId;
use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;
use onego_wire::Time;

#[derive(Debug)]
pub(super) struct Lock<T> {
    pub(super) state: LockState,
    /// Number of the step in flight; results of earlier ones are stale.
    pub(super) step: u32,
    /// Watch in the lock's cookie in the header.
    pub(super) handle: u64,
    pub(super) is_renaming: bool,
    /// The other clients were notified of the ownership.
    pub(super) is_announced: bool,
    /// A caller has locked the image explicitly, and keeps the lock until it unlocks it.
    pub(super) is_pinned: bool,
    /// Callers that keep the lock for an operation; requests of other clients wait.
    pub(super) holders: u32,
    pub(super) is_requested: bool,
    pub(super) wait: Option<LockWait>,
    /// Consecutive requests that the owner left unanswered.
    pub(super) unanswered: u32,
    /// Consecutive times that a lock of this very client was found without a watch.
    pub(super) unwatched: u32,
    pub(super) takers: Vec<T>,
    pub(super) leavers: Vec<T>,
    /// Callers that wait until no change of a fenced image is in flight.
    pub(super) fencers: Vec<T>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum LockState {
    Free,
    Taking,
    Inspecting,
    Asking,
    /// Retrying at that time, or when the owner has released it.
    Waiting(Time),
    /// The owner is dead: asking the monitors to blocklist it.
    Blocklisting(Locker),
    Fencing(Locker),
    Breaking,
    Refreshing,
    LockingMap,
    /// Another client holds the object map's lock without the image's.
    InspectingMap,
    BreakingMap,
    LoadingMap,
    Held,
    /// To be released as soon as no change is in flight.
    Draining,
    UnlockingMap,
    Unlocking,
}

/// Wait for an exclusive lock that another client holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LockWait {
    /// The client that holds the lock.
    pub owner: EntityName,
    /// Its address.
    pub addr: EntityAddr,
    /// Start of the wait.
    pub since: Time,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Locker {
    pub(super) id: LockerId,
    pub(super) addr: EntityAddr,
}

impl<T> Default for Lock<T> {
    fn default() -> Self {
        Self {
            state: LockState::Free,
            step: 0,
            handle: 0,
            is_renaming: false,
            is_announced: false,
            is_pinned: false,
            holders: 0,
            is_requested: false,
            wait: None,
            unanswered: 0,
            unwatched: 0,
            takers: Vec::new(),
            leavers: Vec::new(),
            fencers: Vec::new(),
        }
    }
}

impl LockState {
    /// Returns whether the lock is held while header and object map are read.
    pub(super) fn is_learning(&self) -> bool {
        matches!(
            self,
            Self::Refreshing | Self::LockingMap | Self::InspectingMap | Self::BreakingMap | Self::LoadingMap
        )
    }

    /// Returns whether this client owns the lock in the header, as far as it knows.
    pub(super) fn is_owned(&self) -> bool {
        matches!(
            self,
            Self::Refreshing
                | Self::LockingMap
                | Self::InspectingMap
                | Self::BreakingMap
                | Self::LoadingMap
                | Self::Held
                | Self::Draining
                | Self::UnlockingMap
        )
    }
}
