//! Commands to OSDs themselves, as `ceph tell` gives them.
//!
//! Source: ceph `src/osdc/Objecter.cc`, Objecter::submit_command and what it calls. As there a command is given again on the
//! next connection if one ends before the answer.

use crate::client::error::Error;
use crate::client::hub::Hub;
use crate::messages::Tell;
use onego_wire::{ConnId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most commands to OSDs that wait for an answer: people and their scripts give them.
pub(super) const MAX_TELLS: usize = 256;

/// A command without an answer.
#[derive(Debug)]
pub(super) struct PendingTell<T> {
    pub(super) ticket: T,
    pub(super) osd: i32,
    pub(super) message: Tell,
    pub(super) sent_on: Option<ConnId>,
    /// When it fails, and how long after it was given.
    pub(super) deadline: Option<(Time, Duration)>,
}

/// Commands to OSDs by their transaction ids, which are apart from those of requests to objects.
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

    /// Is one waiting for this OSD?
    pub(super) fn are_on(&self, osd: i32) -> bool {
        self.pending.values().any(|tell| tell.osd == osd)
    }

    /// The first deadline.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.pending.values().filter_map(|tell| Some(tell.deadline?.0)).min()
    }

    /// No answer can come on this connection any more.
    pub(super) fn void(&mut self, conn: ConnId) {
        for tell in self.pending.values_mut().filter(|tell| tell.sent_on == Some(conn)) {
            tell.sent_on = None;
        }
    }

    /// Ends those that `ends` gives an error for.
    pub(super) fn end_where(&mut self, hub: &mut Hub<T>, ends: impl Fn(&PendingTell<T>) -> Option<Error>) {
        let ended: Vec<(u64, Error)> =
            self.pending.iter().filter_map(|(tid, tell)| Some((*tid, ends(tell)?))).collect();
        for (tid, error) in ended {
            if let Some(tell) = self.pending.remove(&tid) {
                hub.complete(tell.ticket, Err(error), None);
            }
        }
    }

    /// Gives up those whose tickets are `unwanted`.
    pub(super) fn cancel_where(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        self.end_where(hub, |tell| unwanted(&tell.ticket).then_some(Error::Cancelled));
    }

    /// Gives up those whose time is over.
    pub(super) fn expire(&mut self, now: Time, hub: &mut Hub<T>) {
        self.end_where(hub, |tell| {
            let (_, after) = tell.deadline.filter(|(deadline, _)| *deadline <= now)?;
            Some(Error::Timeout { after, waiting: None })
        });
    }

    /// Gives all up.
    pub(super) fn close(&mut self, hub: &mut Hub<T>) {
        self.end_where(hub, |_| Some(Error::Closed));
    }
}
