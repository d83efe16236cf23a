//! Commands to OSDs themselves, as by `ceph tell`.
//!
//! Source: ceph `src/osdc/Objecter.cc`, Objecter::submit_command and its callees. As there, a command is resent on the
//! next connection if one ends before the answer.

use crate::client::error::Error;
use crate::client::hub::Hub;
use crate::messages::Tell;
use onego_wire::{ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of commands in flight: only people and their scripts send them.
pub(super) const MAX_TELLS: usize = 256;

#[derive(Debug)]
pub(super) struct PendingTell<T> {
    pub(super) ticket: T,
    pub(super) osd: i32,
    pub(super) message: Tell,
    pub(super) sent_on: Option<ConnId>,
    /// Deadline, and time from submission to it.
    pub(super) deadline: Option<(Time, Duration)>,
}

/// Commands to OSDs by transaction id; these ids are distinct from those of object requests.
#[derive(Debug)]
pub(super) struct Tells<T> {
    pub(super) pending: BTreeMap<u64, PendingTell<T>>,
    pub(super) last_tid: u64,
}

impl<T> Tells<T> {
    pub(super) fn new() -> Self {
        Self { pending: BTreeMap::new(), last_tid: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn are_on(&self, osd: i32) -> bool {
        self.pending.values().any(|tell| tell.osd == osd)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.pending.values().filter_map(|tell| Some(tell.deadline?.0)).min()
    }

    pub(super) fn void(&mut self, conn: ConnId) {
        for tell in self.pending.values_mut().filter(|tell| tell.sent_on == Some(conn)) {
            tell.sent_on = None;
        }
    }

    /// Fails the commands for which `ends` returns an error.
    pub(super) fn end_where(&mut self, hub: &mut Hub<T>, ends: impl Fn(&PendingTell<T>) -> Option<Error>) {
        let ended: Vec<(u64, Error)> =
            self.pending.iter().filter_map(|(tid, tell)| Some((*tid, ends(tell)?))).collect();
        for (tid, error) in ended {
            if let Some(tell) = self.pending.remove(&tid) {
                hub.complete(tell.ticket, Err(error), None);
            }
        }
    }

    pub(super) fn cancel_where(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        self.end_where(hub, |tell| unwanted(&tell.ticket).then_some(Error::Cancelled));
    }

    pub(super) fn expire(&mut self, now: Time, hub: &mut Hub<T>) {
        self.end_where(hub, |tell| {
            let (_, after) = tell.deadline.filter(|(deadline, _)| *deadline <= now)?;
            Some(Error::Timeout { after, waiting: None })
        });
    }

    pub(super) fn close(&mut self, hub: &mut Hub<T>) {
        self.end_where(hub, |_| Some(Error::Closed));
    }
}
