//! How far an image is with its exclusive lock.

use onego_ceph::cls::lock::LockerId;
use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;
use onego_wire::Time;

/// The exclusive lock of an image.
#[derive(Debug)]
pub(super) struct Lock<T> {
    pub(super) state: LockState,
    /// Number of the step under way; what comes of earlier ones is out of date.
    pub(super) step: u32,
    /// The watch that the lock's name at the header bears.
    pub(super) handle: u64,
    /// The lock gets the name of another watch.
    pub(super) is_renaming: bool,
    /// The others know that this client is the owner.
    pub(super) is_announced: bool,
    /// A caller has asked for the lock, and keeps it until it gives it up.
    pub(super) is_pinned: bool,
    /// Callers that keep the lock for an operation, and let others wait for its end.
    pub(super) holders: u32,
    /// Another client has asked for the lock.
    pub(super) is_requested: bool,
    /// The owner, while something here waits for it to release the lock.
    pub(super) wait: Option<LockWait>,
    /// How often in a row the owner was asked and did not answer.
    pub(super) unanswered: u32,
    /// How often in a row a lock of this very client was found without a watch.
    pub(super) unwatched: u32,
    /// Callers that wait for the lock.
    pub(super) takers: Vec<T>,
    /// Callers that wait until it is let go.
    pub(super) leavers: Vec<T>,
    /// Callers that wait until no change is in flight, of an image that is to fail.
    pub(super) fencers: Vec<T>,
}

/// The steps on the way to the lock, and back.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LockState {
    /// It is not held here.
    Free,
    /// The header's class is asked for it.
    Taking,
    /// Somebody else has it; the header tells who, and who watches.
    Inspecting,
    /// The owner is asked for it.
    Asking,
    /// It is tried again at that time, or when the owner says that it has let go.
    Waiting(Time),
    /// The owner is dead: the monitors are asked to let nothing of it through.
    Blocklisting(Locker),
    /// The map that says so must be known here.
    Fencing(Locker),
    /// The lock is taken away from the dead owner.
    Breaking,
    /// It is held, and the header is read again.
    Refreshing,
    /// The lock of the object map is taken.
    LockingMap,
    /// Somebody else has the object map's lock without having the image's.
    InspectingMap,
    /// It is taken away.
    BreakingMap,
    /// The object map is read.
    LoadingMap,
    /// Writes go out.
    Held,
    /// It is let go as soon as the changes in flight have ended.
    Draining,
    /// The lock of the object map is let go.
    UnlockingMap,
    /// The lock is let go.
    Unlocking,
}

/// A wait for an exclusive lock that another client holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LockWait {
    /// The client that holds the lock.
    pub owner: EntityName,
    /// Its address.
    pub addr: EntityAddr,
    /// Start of the wait.
    pub since: Time,
}

/// The holder of the lock.
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
    /// Is the lock held, while header and object map are read?
    pub(super) fn is_learning(&self) -> bool {
        matches!(
            self,
            Self::Refreshing | Self::LockingMap | Self::InspectingMap | Self::BreakingMap | Self::LoadingMap
        )
    }

    /// Does the header say that this client has the lock, as far as is known here?
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
