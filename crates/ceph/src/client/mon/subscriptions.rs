//! Subscriptions at a monitor.

use crate::messages::{Subscribe, Subscription};
use crate::types::Epoch;
use std::collections::BTreeMap;

/// Subscribed maps. A monitor drops a subscription with the session, and one for a single update after
/// sending it (ceph `src/mon/MonSub.cc`).
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    monmap: Epoch,
    osdmap: Option<Subscription>,
    log: LogWanted,
}

/// Whether the log is wanted, and its next version.
#[derive(Debug, Default)]
struct LogWanted {
    is_wanted: bool,
    next: u64,
}

const LOG: &str = "log-debug";

impl Subscriptions {
    /// Subscribes to the OSD map from epoch `start` on, once or permanently. Returns the message if there is a change.
    pub(crate) fn want_osdmap(&mut self, start: Epoch, once: bool, hostname: &str) -> Option<Subscribe> {
        let wanted = Subscription { start: start.into(), once };
        if self.osdmap == Some(wanted) {
            return None;
        }
        self.osdmap = Some(wanted);
        Some(subscribe(BTreeMap::from([("osdmap".to_owned(), wanted)]), hostname))
    }

    /// Handles the arrival of an OSD map of this epoch from any source.
    pub(crate) fn got_osdmap(&mut self, epoch: Epoch) {
        if let Some(wanted) = &mut self.osdmap
            && u64::from(epoch) >= wanted.start
        {
            if wanted.once {
                self.osdmap = None;
            } else {
                wanted.start = u64::from(epoch) + 1;
            }
        }
    }

    /// Subscribes to the cluster's log, or unsubscribes. Returns the message if there is a change: monitors cannot be asked to
    /// end a subscription, so it lasts as long as the session.
    pub(crate) fn want_log(&mut self, is_wanted: bool, hostname: &str) -> Option<Subscribe> {
        let is_news = is_wanted && !self.log.is_wanted;
        self.log.is_wanted = is_wanted;
        is_news.then(|| subscribe(BTreeMap::from([(LOG.to_owned(), self.log.subscription())]), hostname))
    }

    /// Handles a version of the log. Returns whether it is wanted and new.
    pub(crate) fn got_log(&mut self, version: u64) -> bool {
        let is_news = self.log.is_wanted && version >= self.log.next;
        self.log.next = self.log.next.max(version.saturating_add(1));
        is_news
    }

    pub(crate) fn got_monmap(&mut self, epoch: Epoch) {
        self.monmap = epoch;
    }

    pub(crate) fn all(&self, hostname: &str) -> Subscribe {
        // From the current epoch, not the next: a monitor without a newer map would otherwise stay silent.
        let monmap = Subscription { start: self.monmap.into(), once: false };
        let mut what = BTreeMap::from([("monmap".to_owned(), monmap)]);
        what.extend(self.osdmap.map(|wanted| ("osdmap".to_owned(), wanted)));
        what.extend(self.log.is_wanted.then(|| (LOG.to_owned(), self.log.subscription())));
        subscribe(what, hostname)
    }
}

impl LogWanted {
    fn subscription(&self) -> Subscription {
        Subscription { start: self.next, once: false }
    }
}

fn subscribe(what: BTreeMap<String, Subscription>, hostname: &str) -> Subscribe {
    Subscribe { what, hostname: hostname.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_subscription_is_not_repeated() {
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.want_osdmap(5, true, "host").is_some());
        assert!(subscriptions.want_osdmap(5, true, "host").is_none());
        assert!(subscriptions.want_osdmap(5, false, "host").is_some());
    }

    #[test]
    fn the_log_continues_after_the_last_version() {
        let mut subscriptions = Subscriptions::default();
        assert!(!subscriptions.got_log(3) && !subscriptions.all("").what.contains_key(LOG));
        let first = subscriptions.want_log(true, "host").unwrap();
        assert_eq!(first.what[LOG], Subscription { start: 4, once: false });
        assert!(subscriptions.want_log(true, "host").is_none(), "it is wanted already");
        assert!(subscriptions.got_log(7) && !subscriptions.got_log(7));
        assert_eq!(subscriptions.all("").what[LOG].start, 8);
        assert!(subscriptions.want_log(false, "host").is_none());
        assert!(!subscriptions.got_log(8) && !subscriptions.all("").what.contains_key(LOG));
    }

    #[test]
    fn one_update_ends_a_subscription_for_one_update_only() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.want_osdmap(5, true, "");
        subscriptions.got_osdmap(4);
        assert!(subscriptions.all("").what.contains_key("osdmap"));
        subscriptions.got_osdmap(5);
        assert!(!subscriptions.all("").what.contains_key("osdmap"));
        subscriptions.want_osdmap(6, false, "");
        subscriptions.got_osdmap(7);
        assert_eq!(subscriptions.all("").what["osdmap"], Subscription { start: 8, once: false });
    }
}
