//! Clients that must not be served any more, for a while.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` ("osd blocklist").

use super::state::Mon;
use onego_ceph::types::{Epoch, Utime};
use onego_msgr::addr::{AddrKind, EntityAddr};
use onego_msgr::auth::AuthName;
use onego_wire::Time;
use std::time::Duration;

/// Most clients that are blocked at a time, and how many of them only the administrator blocks.
const MAX_BLOCKED: usize = 4096;
const RESERVED: usize = 64;

/// The form in which addresses stand in the list: they are the same over either version of the messenger.
fn listed(addr: &EntityAddr) -> EntityAddr {
    EntityAddr { kind: AddrKind::Any, ..*addr }
}

impl Mon {
    /// Returns whether a user may block a client: the administrator while there is room, others if they leave as much for
    /// the next user. Otherwise one user could keep all others from shutting out dead owners of locks.
    pub(in crate::mon) fn may_block(&self, addr: &EntityAddr, by: &AuthName, is_administrator: bool) -> bool {
        let blocked = &self.osdmap().blocklist;
        let room = MAX_BLOCKED.saturating_sub(blocked.len());
        let own = blocked.keys().filter(|addr| self.blockers.get(addr) == Some(by)).count();
        self.is_blocked(addr) || if is_administrator { room > 0 } else { own + RESERVED < room }
    }

    /// Takes a client off, from now on for that long. Says until when.
    pub(in crate::mon) fn block(
        &mut self,
        now: Time,
        addr: &EntityAddr,
        by: &AuthName,
        time: Duration,
    ) -> Utime {
        let until = Utime::from(now + time);
        let addr = listed(addr);
        // Expired entries are dropped before there are too many.
        if self.blockers.len() >= 2 * MAX_BLOCKED {
            let blocked = &self.maps.newest().blocklist;
            self.blockers.retain(|addr, _| blocked.contains_key(addr));
        }
        self.blockers.insert(addr, by.clone());
        let mut change = self.maps.change(now);
        // An entry that is there keeps its time, unless it is taken out first; both in one change do not go.
        if self.osdmap().blocklist.contains_key(&addr) {
            change.old_blocklist.push(addr);
            self.commit(change);
            change = self.maps.change(now);
        }
        change.new_blocklist.insert(addr, until);
        self.commit(change);
        until
    }

    /// Returns whether a client is blocked.
    pub(in crate::mon) fn is_blocked(&self, addr: &EntityAddr) -> bool {
        self.osdmap().blocklist.contains_key(&listed(addr))
    }

    /// Lets clients in again.
    pub(in crate::mon) fn unblock(
        &mut self,
        now: Time,
        addrs: impl IntoIterator<Item = EntityAddr>,
    ) -> Option<Epoch> {
        let map = self.osdmap();
        let addrs = addrs.into_iter().map(|addr| listed(&addr));
        let old: Vec<EntityAddr> = addrs.filter(|addr| map.blocklist.contains_key(addr)).collect();
        if old.is_empty() {
            return None;
        }
        let mut change = self.maps.change(now);
        change.old_blocklist = old;
        Some(self.commit(change))
    }

    /// When the first client is to be let in again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.osdmap().blocklist.values().min().map(|&until| until.into())
    }

    /// Lets those in again whose time is up.
    pub(crate) fn timeout(&mut self, now: Time) {
        let over = self.osdmap().blocklist.iter().filter(|(_, until)| Time::from(**until) <= now);
        let over: Vec<EntityAddr> = over.map(|(addr, _)| *addr).collect();
        self.unblock(now, over);
    }
}
