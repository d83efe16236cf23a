//! State of header refreshes, with their waiters.

use onego_ceph::client::WatchId;

#[derive(Debug)]
pub(super) struct Refresh<T> {
    pub(super) is_in_flight: bool,
    pub(super) current: Vec<Waiter<T>>,
    pub(super) next: Vec<Waiter<T>>,
    /// Acknowledged when no read of a former parent is in flight.
    pub(super) unanswered: Vec<(WatchId, u64)>,
}

#[derive(Debug)]
pub(super) enum Waiter<T> {
    Caller(T),
    Notifier(WatchId, u64),
    Lock,
    None,
}

impl<T> Default for Refresh<T> {
    fn default() -> Self {
        Self { is_in_flight: false, current: Vec::new(), next: Vec::new(), unanswered: Vec::new() }
    }
}
