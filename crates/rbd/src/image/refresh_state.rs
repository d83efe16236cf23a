//! Callers and clients that wait until the header is read again.

use onego_ceph::client::WatchId;

/// The reads of the header.
#[derive(Debug)]
pub(super) struct Refresh<T> {
    pub(super) is_in_flight: bool,
    /// These wait for the read that is in flight.
    pub(super) current: Vec<Waiter<T>>,
    /// These came later, and wait for the next.
    pub(super) next: Vec<Waiter<T>>,
    /// These are answered when nothing of a parent is being read any more that the image had.
    pub(super) unanswered: Vec<(WatchId, u64)>,
}

/// Who waits for a read of the header.
#[derive(Debug)]
pub(super) enum Waiter<T> {
    /// A caller.
    Caller(T),
    /// The sender of a notification.
    Notifier(WatchId, u64),
    /// The lock, which was taken.
    Lock,
    /// Nobody.
    Nobody,
}

impl<T> Default for Refresh<T> {
    fn default() -> Self {
        Self { is_in_flight: false, current: Vec::new(), next: Vec::new(), unanswered: Vec::new() }
    }
}
