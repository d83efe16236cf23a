//! Maps and settings that clients subscribe to are sent when they change.
//!
//! Source: ceph `src/mon/Monitor.cc`, `handle_subscribe`; `src/mon/OSDMonitor.cc`, `check_osdmap_sub`;
//! `src/mon/ConfigMonitor.cc`, `maybe_send_config`.

use super::state::{Mon, Outgoing};
use crate::mon::session::{LogWish, MapWish};
use crate::mon::stats::MgrMapMessage;
use onego_ceph::caps::{MonAccess, MonCap};
use onego_ceph::messages::{Config, LogLevel, MapUpdate, Payload as _, Subscribe, Subscription};
use onego_ceph::types::Epoch;
use onego_msgr::{Message, Peer};
use onego_wire::ConnId;
use std::collections::{BTreeMap, BTreeSet};

impl Mon {
    pub(in crate::mon) fn subscribe(&mut self, session: ConnId, wishes: &Subscribe) {
        let cap = self.cap(session);
        for (what, &wish) in &wishes.what {
            match what.as_str() {
                // Ceph says nothing either to who may not see the map (Monitor::handle_subscribe).
                "osdmap" if !cap.allows("osd", MonAccess::READ) => {
                    tracing::warn!(?session, "a client wants the OSD map, and has no capability to see it");
                }
                "osdmap" => self.subscribe_osdmap(session, wish),
                "monmap" if wish.start <= u64::from(self.monmap.epoch) => {
                    self.reply(session, 0, &self.monmap_message());
                }
                "mgrmap" if wish.start <= u64::from(self.mgrmap.epoch) => {
                    self.reply(session, 0, &MgrMapMessage { map: self.mgrmap.clone() });
                }
                "config" => {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.config = !wish.once;
                    }
                    self.send_config(session);
                }
                what if what.starts_with("log-") => self.subscribe_log(session, &cap, what, wish),
                // Up to date, or a map of something that there is not: file systems, services.
                _ => {}
            }
        }
        // No acknowledgement: that is for clients of before Jewel, which renew their subscriptions.
    }

    /// A session has one wish for the log: the newest.
    fn subscribe_log(&mut self, session: ConnId, cap: &MonCap, what: &str, wish: Subscription) {
        let Some(level) = what.strip_prefix("log-").and_then(LogLevel::named) else { return };
        if !cap.allows("log", MonAccess::READ) {
            tracing::warn!(?session, "a client wants the cluster's log, and has no capability to see it");
            return;
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            session.log = Some(LogWish { level, next: wish.start, once: wish.once });
        }
        self.send_log(session);
    }

    fn subscribe_osdmap(&mut self, session: ConnId, wish: Subscription) {
        // A client that is ahead of this monitor cannot be helped; it gets what comes.
        let next = Epoch::try_from(wish.start).unwrap_or(Epoch::MAX);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.osdmap = Some(MapWish { next, once: wish.once });
        }
        self.send_osdmap(session);
    }

    /// Sends what is new to a client that wants it.
    fn send_osdmap(&mut self, id: ConnId) {
        let newest = self.maps.epoch();
        if self.map_wish(id).is_some_and(|next| next <= newest) && !self.deferred.contains(&id) {
            self.out.push_back((id, Outgoing::Map));
        }
    }

    /// The next epoch that a client wants.
    pub(crate) fn map_wish(&self, id: ConnId) -> Option<Epoch> {
        Some(self.sessions.get(&id)?.osdmap?.next)
    }

    /// Takes what is new for a client that wants it.
    pub(crate) fn take_map(&mut self, id: ConnId) -> Option<Message> {
        let message = self.map_message(self.map_wish(id)?)?;
        let next = self.maps.epoch() + 1;
        let wish = &mut self.sessions.get_mut(&id)?.osdmap;
        *wish = wish.filter(|wish| !wish.once).map(|wish| MapWish { next, ..wish });
        Some(message)
    }

    /// The update for a client with the next epoch `next`, if there is anything new. Its bytes are shared with others that
    /// have the same next epoch.
    pub(crate) fn map_message(&mut self, next: Epoch) -> Option<Message> {
        let front = self.maps.encoded_from(next)?;
        Some(Message::new(MapUpdate::KIND, MapUpdate::VERSION, MapUpdate::COMPAT, front))
    }

    /// A client takes the newest map later.
    pub(crate) fn defer_map(&mut self, id: ConnId) {
        self.deferred.insert(id);
    }

    /// Takes the clients that take the newest map later.
    pub(crate) fn take_deferred(&mut self) -> BTreeSet<ConnId> {
        std::mem::take(&mut self.deferred)
    }

    /// Returns whether a client takes the newest map later; from here on it does not.
    pub(crate) fn is_deferred(&mut self, id: ConnId) -> bool {
        self.deferred.remove(&id)
    }

    /// There is a new OSD map: tells all that want to know.
    pub(in crate::mon) fn publish(&mut self) {
        let ids: Vec<ConnId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.send_osdmap(id);
        }
    }

    pub(in crate::mon) fn send_config(&mut self, id: ConnId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let settings = self.settings_of(&session.peer);
        self.reply(id, 0, &Config { settings });
    }

    /// Settings have changed: tells all that want to know.
    pub(in crate::mon) fn publish_config(&mut self) {
        let wants = self.sessions.iter().filter(|(_, session)| session.config);
        let ids: Vec<ConnId> = wants.map(|(id, _)| *id).collect();
        for id in ids {
            self.send_config(id);
        }
    }

    /// The settings for a client: those for it alone over those for its kind over those for all.
    fn settings_of(&self, peer: &Peer) -> BTreeMap<String, String> {
        let name = peer.auth_name.as_ref().map(ToString::to_string).unwrap_or_default();
        let kind = name.split('.').next().unwrap_or_default();
        let sections = ["global", kind, name.as_str()];
        let settings = sections.iter().filter_map(|section| self.config.get(*section));
        settings.flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}
