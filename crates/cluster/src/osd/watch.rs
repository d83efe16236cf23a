//! Watches on objects, and notifications of those who watch.
//!
//! Sources: ceph `doc/dev/osd_internals/watch_notify.rst`, `src/osd/Watch.cc`, `src/osd/PrimaryLogPG.cc`
//! (do_osd_op_effects, handle_watch_timeout).
//!
//! A watch belongs to a client, not to its connection: when that breaks, the watch stays until its time is up, and
//! notifications of that time are delivered if the client comes back.
//!
//! Watches and notifications are shared by all users of the OSD. A user may hold as much of each as is left ([`Share`]), so
//! the next user finds room. Messages are made when the connection takes them ([`Events`]): a notification of many
//! watchers is held once.

use super::errno::Errno;
use super::events::{Event, Events};
use super::session::{Origin, SessionId, UserId};
use super::store::ObjectId;
use onego_ceph::messages::{WatchEvent, WatchNotify};
use onego_ceph::outputs::{Watcher, Watchers};
use onego_ceph::types::EntityName;
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::Encode;
use onego_wire::{Time, Writer};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Time without a sign of life after which a watch is lost, unless the watcher says so
/// (`osd_client_watch_timeout`).
const DEFAULT_WATCH_TIMEOUT: u32 = 30;

/// Time after which a notification is over, unless the notifier says so (`osd_default_notify_timeout`).
const DEFAULT_NOTIFY_TIMEOUT: u32 = 30;

/// Bounds on the timeouts that clients ask for, in seconds. librbd asks for 30 and 5.
const MAX_WATCH_TIMEOUT: u32 = 3600;
const MAX_NOTIFY_TIMEOUT: u32 = 300;

/// Limits for all users together. A client of an image has one watch.
const MAX: Share = Share { watches: 1 << 17, notifies: 1 << 13, bytes: 64 << 20 };

/// Bytes of a notification's payload, and of a watcher's reply to it.
const MAX_PAYLOAD: usize = 1 << 20;

/// Bytes that a notification under way takes for each watcher, and for itself.
const NOTIFY_COST: u64 = 256;

/// Amounts held, by one user or by all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    watches: u64,
    notifies: u64,
    /// Memory of notifications under way and of replies to them.
    bytes: u64,
}

impl Share {
    /// Returns whether a user who holds `own` of `all` may hold `more`: if that leaves as much for others.
    fn may_hold(own: u64, all: u64, more: u64, max: u64) -> bool {
        own.saturating_add(more) <= max.saturating_sub(all.saturating_add(more))
    }
}

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
    user: UserId,
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
    user: UserId,
    notifier: u64,
    cookie: u64,
    version: u64,
    payload: Arc<[u8]>,
    /// Counted for it.
    bytes: u64,
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
    events: Events,
    all: Share,
    users: FxHashMap<UserId, Share>,
}

fn seconds(n: u32, default: u32, max: u32) -> Duration {
    Duration::from_secs(if n == 0 { default } else { n.min(max) }.into())
}

impl Watches {
    /// The next message to a watcher or notifier whose connection takes one. The others wait for
    /// [`resume`](Self::resume).
    pub(crate) fn poll_event(
        &mut self,
        takes: impl Fn(SessionId) -> bool,
    ) -> Option<(SessionId, WatchNotify)> {
        loop {
            let (session, event) = self.events.next(&takes)?;
            match event {
                Event::Notify { key, id } => {
                    if let Some(message) = self.notification(&key, id, session) {
                        return Some((session, message));
                    }
                }
                Event::Disconnect { cookie } => return Some((session, disconnected(cookie))),
                Event::Complete { user, bytes, message } => {
                    self.release(user, |share| share.bytes -= bytes);
                    return Some((session, *message));
                }
            }
        }
    }

    /// Returns whether there are messages for connections that may take them.
    pub(crate) fn has_event(&self) -> bool {
        self.events.is_ready()
    }

    pub(crate) fn has_no_events(&self) -> bool {
        self.events.is_empty()
    }

    /// A connection takes messages again.
    pub(crate) fn resume(&mut self, session: SessionId) {
        self.events.resume(session);
    }

    fn share(&self, user: UserId) -> Share {
        self.users.get(&user).copied().unwrap_or_default()
    }

    fn charge(&mut self, user: UserId, change: impl Fn(&mut Share)) {
        change(&mut self.all);
        change(self.users.entry(user).or_default());
    }

    fn release(&mut self, user: UserId, change: impl Fn(&mut Share)) {
        self.charge(user, change);
        if self.share(user) == Share::default() {
            self.users.remove(&user);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn is_watching(&self, key: &WatchKey) -> bool {
        self.watches.contains_key(key)
    }

    /// ENOSPC: the user has too many watches already.
    pub(crate) fn check_room(&self, key: &WatchKey, user: UserId) -> Result<(), Errno> {
        let own = self.share(user).watches;
        let room = Share::may_hold(own, self.all.watches, 1, MAX.watches) || self.is_watching(key);
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

    /// Number of watches of an object.
    pub(crate) fn count_of(&self, object: ObjectId) -> u64 {
        self.of_object(object).count() as u64
    }

    /// A client watches, for the first time or again.
    pub(crate) fn connect(&mut self, now: Time, key: WatchKey, from: &Origin, timeout: u32, pings: bool) {
        if !self.is_watching(&key) {
            self.charge(from.user, |share| share.watches += 1);
        }
        let watch = self.watches.entry(key).or_insert_with(|| Watch {
            session: None,
            addr: from.addr,
            user: from.user,
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
            let deadline = now + seconds(watch.timeout, DEFAULT_WATCH_TIMEOUT, MAX_WATCH_TIMEOUT);
            watch.deadline = Some(deadline);
            self.timers.insert((deadline, Timer::Watch(*key)));
        }
    }

    /// A watch ends. The watcher is notified unless it asked for that itself.
    pub(crate) fn remove(&mut self, key: &WatchKey, tell: bool) {
        let Some(watch) = self.forget(key) else { return };
        if let (true, Some(session)) = (tell, watch.session) {
            self.events.push(session, Event::Disconnect { cookie: key.cookie });
        }
        for id in watch.notifies {
            self.answered(id, key, None);
        }
    }

    fn forget(&mut self, key: &WatchKey) -> Option<Watch> {
        let watch = self.watches.remove(key)?;
        if let Some(deadline) = watch.deadline {
            self.timers.remove(&(deadline, Timer::Watch(*key)));
        }
        self.release(watch.user, |share| share.watches -= 1);
        Some(watch)
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
            let Some(watch) = self.forget(&key) else { continue };
            for id in watch.notifies {
                if let Some(notify) = self.end(id) {
                    self.release(notify.user, |share| share.bytes -= notify.bytes);
                }
            }
            let WatchKey { cookie, watcher, .. } = key;
            moving.push(Moving {
                cookie,
                watcher,
                addr: watch.addr,
                user: watch.user,
                timeout: watch.timeout,
                pings: watch.pings,
            });
        }
        moving
    }

    /// A watch comes with its object from another OSD. Its time runs until the watcher is here as well.
    pub(crate) fn adopt(&mut self, now: Time, object: ObjectId, moving: Moving) {
        let Moving { cookie, watcher, addr, user, timeout, pings } = moving;
        let key = WatchKey { object, cookie, watcher };
        let notifies = BTreeSet::new();
        let watch = Watch { session: None, addr, user, timeout, pings, deadline: None, notifies };
        if self.watches.insert(key, watch).is_none() {
            self.charge(user, |share| share.watches += 1);
        }
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
        for event in self.events.close(session) {
            if let Event::Complete { user, bytes, .. } = event {
                self.release(user, |share| share.bytes -= bytes);
            }
        }
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

    /// Number for a notification of this object, unique forever as epochs only grow (OSDService::get_next_id). EMSGSIZE: the
    /// payload is too large; EBUSY: the user has too many under way, or too many watchers hear them.
    pub(crate) fn next_notify_id(
        &mut self,
        epoch: u32,
        object: ObjectId,
        payload: usize,
        user: UserId,
    ) -> Result<u64, Errno> {
        if payload > MAX_PAYLOAD {
            return Err(Errno::MSGSIZE);
        }
        let (own, bytes) = (self.share(user), self.cost(object, payload));
        let has_room = Share::may_hold(own.notifies, self.all.notifies, 1, MAX.notifies)
            && Share::may_hold(own.bytes, self.all.bytes, bytes, MAX.bytes);
        if !has_room {
            return Err(Errno::BUSY);
        }
        self.last_notify = self.last_notify.wrapping_add(1);
        Ok(u64::from(epoch) << 32 | u64::from(self.last_notify))
    }

    /// Bytes that a notification takes while it is under way.
    fn cost(&self, object: ObjectId, payload: usize) -> u64 {
        payload as u64 + NOTIFY_COST * (1 + self.of_object(object).count() as u64)
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
        let deadline = now + seconds(call.timeout, DEFAULT_NOTIFY_TIMEOUT, MAX_NOTIFY_TIMEOUT);
        let bytes = self.cost(object, call.payload.len());
        self.charge(from.user, |share| {
            share.notifies += 1;
            share.bytes += bytes;
        });
        let watchers: BTreeSet<WatchKey> = self.of_object(object).map(|(key, _)| *key).collect();
        let notify = Notify {
            session: from.session,
            user: from.user,
            notifier: from.name.num as u64,
            cookie: call.cookie,
            version,
            payload: call.payload.into(),
            bytes,
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
        if let Some(session) = self.watches.get(key).and_then(|watch| watch.session) {
            self.events.push(session, Event::Notify { key: *key, id });
        }
    }

    /// The message of a notification, unless the watcher is gone, is elsewhere by now, or the time is up.
    fn notification(&self, key: &WatchKey, id: u64, session: SessionId) -> Option<WatchNotify> {
        self.watches.get(key).filter(|watch| watch.session == Some(session))?;
        let notify = self.notifies.get(&id).filter(|notify| notify.waiting_for.contains(key))?;
        Some(WatchNotify {
            event: WatchEvent::Notify,
            cookie: key.cookie,
            version: notify.version,
            notify_id: id,
            payload: notify.payload.to_vec(),
            result: 0,
            notifier: notify.notifier,
        })
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
            let user = notify.user;
            // A reply for which there is no room counts as an empty one.
            let own = self.users.get(&user).map_or(0, |share| share.bytes);
            let len = reply.len() as u64;
            let fits = reply.len() <= MAX_PAYLOAD && Share::may_hold(own, self.all.bytes, len, MAX.bytes);
            let reply = if fits { reply } else { Vec::new() };
            let len = reply.len() as u64;
            notify.bytes += len;
            notify.replies.insert((key.watcher.num as u64, key.cookie), reply);
            self.charge(user, |share| share.bytes += len);
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
        let Some(notify) = self.end(id) else { return };
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
        let message = WatchNotify {
            event: WatchEvent::NotifyComplete,
            cookie: notify.cookie,
            version: notify.version,
            notify_id: id,
            payload: w.into_vec(),
            result,
            notifier: notify.notifier,
        };
        let Notify { user, bytes, session, .. } = notify;
        self.events.push(session, Event::Complete { user, bytes, message: Box::new(message) });
    }

    /// Takes a notification off. Its bytes stay counted.
    fn end(&mut self, id: u64) -> Option<Notify> {
        let notify = self.notifies.remove(&id)?;
        self.timers.remove(&(notify.deadline, Timer::Notify(id)));
        self.release(notify.user, |share| share.notifies -= 1);
        Some(notify)
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
    user: UserId,
    timeout: u32,
    pings: bool,
}

fn disconnected(cookie: u64) -> WatchNotify {
    WatchNotify {
        event: WatchEvent::Disconnect,
        cookie,
        version: 0,
        notify_id: 0,
        payload: Vec::new(),
        result: 0,
        notifier: 0,
    }
}

/// What a notifier asks for.
pub(crate) struct NotifyCall {
    pub(crate) id: u64,
    pub(crate) cookie: u64,
    /// Seconds; 0: the default.
    pub(crate) timeout: u32,
    pub(crate) payload: Vec<u8>,
}
