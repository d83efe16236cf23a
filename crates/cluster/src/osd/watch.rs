//! Watches on objects, and notifications of those who watch.
//!
//! Sources: ceph `doc/dev/osd_internals/watch_notify.rst`, `src/osd/Watch.cc`, `src/osd/PrimaryLogPG.cc`
//! (do_osd_op_effects, handle_watch_timeout).
//!
//! A watch belongs to a client, not to its connection: when that breaks, the watch stays until its time is up, and
//! notifications of that time are delivered if the client comes back.

use super::errno::Errno;
use super::session::{Origin, SessionId};
use super::store::ObjectId;
use onego_ceph::messages::{WatchEvent, WatchNotify};
use onego_ceph::outputs::{Watcher, Watchers};
use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::Encode;
use onego_wire::{Time, Writer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Time without a sign of life after which a watch is lost, unless the watcher says so
/// (`osd_client_watch_timeout`).
const DEFAULT_WATCH_TIMEOUT: u32 = 30;

/// Time after which a notification is over, unless the notifier says so (`osd_default_notify_timeout`).
const DEFAULT_NOTIFY_TIMEOUT: u32 = 30;

/// Most watches, of all objects together. A client of an image has one.
const MAX_WATCHES: usize = 1 << 16;

/// Most notifications under way.
const MAX_NOTIFIES: usize = 1 << 12;

/// Names a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchKey {
    pub(crate) object: ObjectId,
    /// The watcher's own name for the watch.
    pub(crate) cookie: u64,
    pub(crate) watcher: EntityName,
}

struct Watch {
    /// Where the watcher is reached; none: it is away.
    session: Option<SessionId>,
    addr: EntityAddr,
    /// Seconds.
    timeout: u32,
    /// Does the watcher give signs of life? Else its connection is one.
    pings: bool,
    deadline: Option<Time>,
    /// Notifications that the watcher has not answered.
    notifies: BTreeSet<u64>,
}

struct Notify {
    session: SessionId,
    notifier: u64,
    cookie: u64,
    version: u64,
    payload: Vec<u8>,
    waiting_for: BTreeSet<WatchKey>,
    /// By client and cookie.
    replies: BTreeMap<(u64, u64), Vec<u8>>,
    deadline: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Watch(WatchKey),
    Notify(u64),
}

/// All watches and notifications.
#[derive(Default)]
pub(crate) struct Watches {
    watches: BTreeMap<WatchKey, Watch>,
    notifies: BTreeMap<u64, Notify>,
    timers: BTreeSet<(Time, Timer)>,
    last_notify: u32,
    events: VecDeque<(SessionId, WatchNotify)>,
}

fn seconds(n: u32, default: u32) -> Duration {
    Duration::from_secs(if n == 0 { default } else { n }.into())
}

impl Watches {
    /// The next message to a watcher or notifier.
    pub(crate) fn poll_event(&mut self) -> Option<(SessionId, WatchNotify)> {
        self.events.pop_front()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn is_watching(&self, key: &WatchKey) -> bool {
        self.watches.contains_key(key)
    }

    /// ENOSPC: there are too many watches already.
    pub(crate) fn check_room(&self, key: &WatchKey) -> Result<(), Errno> {
        let room = self.watches.len() < MAX_WATCHES || self.is_watching(key);
        if room { Ok(()) } else { Err(Errno::NOSPC) }
    }

    fn of_object(&self, object: ObjectId) -> impl Iterator<Item = (&WatchKey, &Watch)> {
        let first = WatchKey { object, cookie: 0, watcher: EntityName { kind: 0, num: i64::MIN } };
        self.watches.range(first..).take_while(move |(key, _)| key.object == object)
    }

    /// The watchers of an object.
    pub(crate) fn list(&self, object: ObjectId) -> Watchers {
        let watchers = self.of_object(object).map(|(key, watch)| Watcher {
            name: key.watcher,
            cookie: key.cookie,
            timeout: watch.timeout,
            addr: watch.addr,
        });
        Watchers(watchers.collect())
    }

    /// A client watches, for the first time or again.
    pub(crate) fn connect(&mut self, now: Time, key: WatchKey, from: &Origin, timeout: u32, pings: bool) {
        let watch = self.watches.entry(key).or_insert_with(|| Watch {
            session: None,
            addr: from.addr,
            timeout: if timeout == 0 { DEFAULT_WATCH_TIMEOUT } else { timeout },
            pings,
            deadline: None,
            notifies: BTreeSet::new(),
        });
        if watch.session == Some(from.session) {
            return;
        }
        watch.session = Some(from.session);
        watch.pings = pings;
        for id in watch.notifies.clone() {
            self.send_notify(&key, id);
        }
        self.set_timer(now, &key, pings);
    }

    /// A client gave a sign of life.
    pub(crate) fn ping(&mut self, now: Time, key: &WatchKey) -> Result<(), Errno> {
        match self.watches.get(key) {
            None => Err(Errno::NOTCONN),
            Some(watch) if watch.session.is_none() => Err(Errno::TIMEDOUT),
            Some(_) => {
                self.set_timer(now, key, true);
                Ok(())
            }
        }
    }

    /// Starts the time of a watch again, or stops it.
    fn set_timer(&mut self, now: Time, key: &WatchKey, run: bool) {
        let Some(watch) = self.watches.get_mut(key) else { return };
        if let Some(old) = watch.deadline.take() {
            self.timers.remove(&(old, Timer::Watch(*key)));
        }
        if run {
            let deadline = now + seconds(watch.timeout, DEFAULT_WATCH_TIMEOUT);
            watch.deadline = Some(deadline);
            self.timers.insert((deadline, Timer::Watch(*key)));
        }
    }

    /// A watch ends. The watcher is notified unless it asked for that itself.
    pub(crate) fn remove(&mut self, key: &WatchKey, tell: bool) {
        let Some(watch) = self.watches.remove(key) else { return };
        if let Some(deadline) = watch.deadline {
            self.timers.remove(&(deadline, Timer::Watch(*key)));
        }
        if let (true, Some(session)) = (tell, watch.session) {
            let event = WatchNotify {
                event: WatchEvent::Disconnect,
                cookie: key.cookie,
                version: 0,
                notify_id: 0,
                payload: Vec::new(),
                result: 0,
                notifier: 0,
            };
            self.events.push_back((session, event));
        }
        for id in watch.notifies {
            self.answered(id, key, None);
        }
    }

    /// An object is gone, and with it the watches on it.
    pub(crate) fn object_gone(&mut self, object: ObjectId) {
        if self.watches.is_empty() {
            return;
        }
        for key in self.of_object(object).map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(&key, true);
        }
    }

    /// The watches on an object go to another OSD with it. Who watches will turn to that one by itself, and so will who
    /// waits for answers to a notification (ceph `src/osd/PrimaryLogPG.cc`, `on_change`).
    pub(crate) fn take(&mut self, object: ObjectId) -> Vec<Moving> {
        let keys: Vec<WatchKey> = self.of_object(object).map(|(key, _)| *key).collect();
        let mut moving = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(watch) = self.watches.remove(&key) else { continue };
            if let Some(deadline) = watch.deadline {
                self.timers.remove(&(deadline, Timer::Watch(key)));
            }
            for id in watch.notifies {
                if let Some(notify) = self.notifies.remove(&id) {
                    self.timers.remove(&(notify.deadline, Timer::Notify(id)));
                }
            }
            let WatchKey { cookie, watcher, .. } = key;
            moving.push(Moving {
                cookie,
                watcher,
                addr: watch.addr,
                timeout: watch.timeout,
                pings: watch.pings,
            });
        }
        moving
    }

    /// A watch comes with its object from another OSD. Its time runs until the watcher is here as well.
    pub(crate) fn adopt(&mut self, now: Time, object: ObjectId, moving: Moving) {
        let Moving { cookie, watcher, addr, timeout, pings } = moving;
        let key = WatchKey { object, cookie, watcher };
        let watch = Watch { session: None, addr, timeout, pings, deadline: None, notifies: BTreeSet::new() };
        self.watches.insert(key, watch);
        self.set_timer(now, &key, true);
    }

    /// Does anybody watch anything?
    pub(crate) fn is_empty(&self) -> bool {
        self.watches.is_empty()
    }

    /// Does anybody watch the object?
    pub(crate) fn is_watched(&self, object: ObjectId) -> bool {
        self.of_object(object).next().is_some()
    }

    /// The objects that are watched.
    pub(crate) fn objects(&self) -> BTreeSet<ObjectId> {
        self.watches.keys().map(|key| key.object).collect()
    }

    /// A connection broke. Watches stay until their time is up.
    pub(crate) fn session_closed(&mut self, now: Time, session: SessionId) {
        let lost = self.watches.iter_mut().filter(|(_, watch)| watch.session == Some(session));
        let mut idle = Vec::new();
        for (key, watch) in lost {
            watch.session = None;
            // Who pings is being timed already.
            if !watch.pings {
                idle.push(*key);
            }
        }
        for key in idle {
            self.set_timer(now, &key, true);
        }
    }

    /// Ends the watches of clients that are shut out.
    pub(crate) fn shut_out(&mut self, is_out: impl Fn(&EntityAddr) -> bool) {
        let out = self.watches.iter().filter(|(_, watch)| is_out(&watch.addr)).map(|(key, _)| *key);
        for key in out.collect::<Vec<_>>() {
            self.remove(&key, true);
        }
    }

    /// Number for a notification, for ever unique as epochs only grow (OSDService::get_next_id). EBUSY: there are too
    /// many under way.
    pub(crate) fn next_notify_id(&mut self, epoch: u32) -> Result<u64, Errno> {
        if self.notifies.len() >= MAX_NOTIFIES {
            return Err(Errno::BUSY);
        }
        self.last_notify = self.last_notify.wrapping_add(1);
        Ok(u64::from(epoch) << 32 | u64::from(self.last_notify))
    }

    /// Tells all who watch an object.
    pub(crate) fn notify(
        &mut self,
        now: Time,
        object: ObjectId,
        version: u64,
        call: NotifyCall,
        from: &Origin,
    ) {
        let deadline = now + seconds(call.timeout, DEFAULT_NOTIFY_TIMEOUT);
        let watchers: BTreeSet<WatchKey> = self.of_object(object).map(|(key, _)| *key).collect();
        let notify = Notify {
            session: from.session,
            notifier: from.name.num as u64,
            cookie: call.cookie,
            version,
            payload: call.payload,
            waiting_for: watchers.clone(),
            replies: BTreeMap::new(),
            deadline,
        };
        self.notifies.insert(call.id, notify);
        self.timers.insert((deadline, Timer::Notify(call.id)));
        for key in &watchers {
            if let Some(watch) = self.watches.get_mut(key) {
                watch.notifies.insert(call.id);
            }
            self.send_notify(key, call.id);
        }
        self.complete_if_answered(call.id);
    }

    /// Sends a notification to a watcher, if it is there.
    fn send_notify(&mut self, key: &WatchKey, id: u64) {
        let session = self.watches.get(key).and_then(|watch| watch.session);
        let (Some(session), Some(notify)) = (session, self.notifies.get(&id)) else { return };
        let event = WatchNotify {
            event: WatchEvent::Notify,
            cookie: key.cookie,
            version: notify.version,
            notify_id: id,
            payload: notify.payload.clone(),
            result: 0,
            notifier: notify.notifier,
        };
        self.events.push_back((session, event));
    }

    /// A watcher answers a notification.
    pub(crate) fn acknowledge(&mut self, key: &WatchKey, id: u64, reply: Vec<u8>) {
        let waiting = self.watches.get_mut(key).is_some_and(|watch| watch.notifies.remove(&id));
        if waiting {
            self.answered(id, key, Some(reply));
        }
    }

    fn answered(&mut self, id: u64, key: &WatchKey, reply: Option<Vec<u8>>) {
        let Some(notify) = self.notifies.get_mut(&id) else { return };
        notify.waiting_for.remove(key);
        if let Some(reply) = reply {
            notify.replies.insert((key.watcher.num as u64, key.cookie), reply);
        }
        self.complete_if_answered(id);
    }

    fn complete_if_answered(&mut self, id: u64) {
        if self.notifies.get(&id).is_some_and(|notify| notify.waiting_for.is_empty()) {
            self.complete(id, 0);
        }
    }

    /// Tells the notifier which watchers have answered what, and which have not.
    fn complete(&mut self, id: u64, result: i32) {
        let Some(notify) = self.notifies.remove(&id) else { return };
        self.timers.remove(&(notify.deadline, Timer::Notify(id)));
        let mut w = Writer::new();
        notify.replies.encode(&mut w);
        w.count(notify.waiting_for.len());
        for key in &notify.waiting_for {
            w.i64(key.watcher.num);
            w.u64(key.cookie);
            if let Some(watch) = self.watches.get_mut(key) {
                watch.notifies.remove(&id);
            }
        }
        let event = WatchNotify {
            event: WatchEvent::NotifyComplete,
            cookie: notify.cookie,
            version: notify.version,
            notify_id: id,
            payload: w.into_vec(),
            result,
            notifier: notify.notifier,
        };
        self.events.push_back((notify.session, event));
    }

    /// Ends what was to end until now.
    pub(crate) fn timeout(&mut self, now: Time) {
        while let Some(&(at, timer)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Watch(key) => self.remove(&key, true),
                Timer::Notify(id) => self.complete(id, Errno::TIMEDOUT.result()),
            }
        }
    }
}

/// A watch on its way to another OSD.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moving {
    cookie: u64,
    watcher: EntityName,
    addr: EntityAddr,
    timeout: u32,
    pings: bool,
}

/// What a notifier asks for.
pub(crate) struct NotifyCall {
    pub(crate) id: u64,
    pub(crate) cookie: u64,
    /// Seconds; 0: the default.
    pub(crate) timeout: u32,
    pub(crate) payload: Vec<u8>,
}
